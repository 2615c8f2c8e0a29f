"""The output of the demo: one line per turn, with a bar that moves on a terminal.

Output other than a terminal gets each line once, when it is final, and no colours; nor does a terminal with NO_COLOR.
"""

import os
import shutil
import sys

_HEADER_COLUMNS = f"{'prompt':>7} {'cached':>7} {'prefilled':>10}  {'source':<12} {'TTFT':>8}"
_LABEL_WIDTH = 6
_NARROWEST_COLUMNS = 72


class View:
    def __init__(self, out=sys.stdout):
        self.out = out
        # A line that wraps cannot be redrawn in place, so narrow terminals get final lines only.
        wide = shutil.get_terminal_size().columns >= _NARROWEST_COLUMNS
        self.live = out.isatty() and wide and os.environ.get("TERM", "dumb") != "dumb"
        self.colours = self.live and not os.environ.get("NO_COLOR")
        unicode = "utf" in (out.encoding or "").lower()
        self.cached_mark, self.new_mark, self.empty_mark = "░█·" if unicode else "=#."
        self._unfinished = False  # the cursor is after a line that is not final
        self._waiting = False     # and that line is to be removed

    def say(self, text=""):
        if self.live and self._waiting:
            self._redraw("")
            self._waiting = self._unfinished = False
        self.end_line()
        print(text, file=self.out, flush=True)

    def end_line(self):
        """Ends a line that is still being redrawn, for example before an error message."""
        if self._unfinished:
            self._unfinished = False
            print(file=self.out, flush=True)

    def begin_run(self, title):
        self.say(f"\n{self._paint('1', title)}")
        legend = f"{self.cached_mark} cached  {self.new_mark} prefilled"
        self.say(f"{'turn':>{_LABEL_WIDTH}}  {legend:<{self._bar_width()}.{self._bar_width()}}  {_HEADER_COLUMNS}")

    def wait(self, text):
        """A step that takes a moment; the next line replaces it."""
        if self.live:
            self._redraw(f"{'':>{_LABEL_WIDTH}}  {text} ...")
            self._waiting = True

    def progress(self, label, total, cached, processed):
        if self.live:
            self._redraw(self._line(label, total, cached, processed, ""))

    def turn(self, turn):
        rest = f"  {turn.source:<12} {seconds(turn.ttft_s):>8}"
        line = self._line(turn.label, turn.prompt, turn.cached, turn.prompt, rest)
        if self.live:
            self._redraw(line)
            self.end_line()
        else:
            self.say(line)

    def note(self, text):
        self.say(f"{'':>{_LABEL_WIDTH}}  {self._paint('33', text)}")

    def _line(self, label, total, cached, processed, rest):
        width = self._bar_width()
        old = width * cached // max(total, 1)
        done = max(width * processed // max(total, 1), old)
        if processed > cached:  # prefilled tokens are visible, however few they are
            old, done = min(old, width - 1), max(done, min(old, width - 1) + 1)
        bar = (self._paint("32", self.cached_mark * old) + self._paint("33", self.new_mark * (done - old)) +
               self.empty_mark * (width - done))
        return f"{label:>{_LABEL_WIDTH}}  {bar}  {total:>7,} {cached:>7,} {processed - cached:>10,}{rest}"

    def _redraw(self, text):
        self.out.write("\r\x1b[K" + text)
        self.out.flush()
        self._unfinished, self._waiting = True, False

    def _bar_width(self):
        columns = shutil.get_terminal_size().columns if self.live else 80
        return max(8, min(40, columns - 2 - _LABEL_WIDTH - 2 - len(_HEADER_COLUMNS)))

    def _paint(self, colour, text):
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colours and text else text


def seconds(value):
    return f"{value:.2f} s" if value >= 0.995 else f"{value * 1000:.0f} ms"
