"""Words of a command line that begin with a dash and are no options: the error says what to type."""

from __future__ import annotations

import argparse
import shlex
from itertools import takewhile
from typing import Any, NoReturn


class Command(argparse.ArgumentParser):
    """A command's arguments. Where words that begin with a dash are the trouble, the error says how to give them."""

    _given: tuple[str, ...] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what is left over is an error here, where it is known of which command it is."""
        self._given = tuple(args or ())
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """End with usage and message, and with what to type where words may be meant."""
        super().error(message + self._behind_dashes())

    def _behind_dashes(self) -> str:
        before = tuple(takewhile(lambda word: word != "--", self._given))
        dashed = [word for word in before if word.startswith("-") and word != "-"]
        meant = [word for word in dashed if not self._is_option(word)]
        if not meant and before == tuple(dashed[:1]):  # an option's name alone can be the question
            meant = dashed
        takes_words = any(not action.option_strings and not action.choices for action in self._actions)
        if not meant or not takes_words or before != self._given:
            return ""
        typed = f"-- {shlex.join(before)}" if meant == dashed else f"OPTIONS -- {shlex.join(meant)}"
        return f"\nWords that begin with a dash go behind --. If that is meant: {self.prog} {typed}"

    def _is_option(self, word: str) -> bool:
        return any(name.startswith(word.partition("=")[0]) for name in self._option_string_actions)
