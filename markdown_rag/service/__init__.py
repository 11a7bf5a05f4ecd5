"""One background process for all agents of a user: host, client, and how they find each other."""
