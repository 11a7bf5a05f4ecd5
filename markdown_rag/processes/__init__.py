"""Background processes of ours: where one answers, how it is found or started, and who keeps it alive."""
