"""What a terminal shows after a program wrote to it: as much of a terminal as ncurses uses under xterm-256color."""

import re

# A control sequence; a sequence for the title, a character set or a mode of keys; or one character.
TOKENS = re.compile(r"\x1b\[([?>]?)([\d;]*)([@-~])|\x1b\][^\x07]*\x07|\x1b[()][0B]|\x1b[=>78MDE]|[\x00-\x1f]|[^\x00-\x1f\x1b]+")


class TerminalScreen:
    def __init__(self, columns, rows):
        self.alternate = False
        self._rest = ""
        self._last = " "
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self._columns, self._rows = columns, rows
        self._cells = [[" "] * columns for _ in range(rows)]
        self._x = self._y = 0

    def lines(self):
        return ["".join(row).rstrip() for row in self._cells]

    def text(self):
        return "\n".join(self.lines())

    def feed(self, data):
        text = self._rest + data.decode("utf-8", "ignore")
        at = 0
        while match := TOKENS.match(text, at):
            if match.group(0)[0] == "\x1b" and match.group(3):
                self._obey(match.group(1), [int(number or 0) for number in match.group(2).split(";")], match.group(3))
            elif len(match.group(0)) == 1 and match.group(0) < " ":
                self._control(match.group(0))
            elif match.group(0)[0] != "\x1b":
                self._write(match.group(0))
            at = match.end()
        self._rest = text[at:]

    def _control(self, character):
        if character == "\r":
            self._x = 0
        elif character == "\n":
            self._y = min(self._y + 1, self._rows - 1)
        elif character == "\b":
            self._x = max(self._x - 1, 0)

    def _write(self, text):
        for character in text:
            if self._x >= self._columns:
                self._x, self._y = 0, min(self._y + 1, self._rows - 1)
            self._cells[self._y][self._x] = self._last = character
            self._x += 1

    def _blank(self, y, begin, end):
        for x in range(begin, min(end, self._columns)):
            self._cells[y][x] = " "

    def _obey(self, private, numbers, command):
        first = numbers[0] or 1
        if private:
            if 1049 in numbers:
                self.alternate = command == "h"
            return
        if command in "Hf":
            self._y = min(first, self._rows) - 1
            self._x = min((numbers[1] if len(numbers) > 1 else 1) or 1, self._columns) - 1
        elif command == "d":
            self._y = min(first, self._rows) - 1
        elif command == "G":
            self._x = min(first, self._columns) - 1
        elif command in "AB":
            self._y = min(max(self._y + (first if command == "B" else -first), 0), self._rows - 1)
        elif command in "CD":
            self._x = min(max(self._x + (first if command == "C" else -first), 0), self._columns - 1)
        elif command == "b":
            self._write(self._last * first)
        else:
            self._erase(numbers[0], command, first)

    def _erase(self, mode, command, count):
        if command == "K":
            self._blank(self._y, *((self._x, self._columns), (0, self._x + 1), (0, self._columns))[mode])
        elif command == "X":
            self._blank(self._y, self._x, self._x + count)
        elif command == "J":
            for y in range(self._rows):
                if mode == 2 or (mode == 0 and y > self._y) or (mode == 1 and y < self._y):
                    self._blank(y, 0, self._columns)
            if mode == 0:
                self._blank(self._y, self._x, self._columns)
        elif command in "LM":
            row = self._cells.pop(self._y) if command == "M" else None
            if row is None:
                self._cells.insert(self._y, [" "] * self._columns)
            else:
                self._cells.append([" "] * self._columns)
            del self._cells[self._rows:]
        elif command == "P":
            row = self._cells[self._y]
            del row[self._x:self._x + count]
            row.extend([" "] * (self._columns - len(row)))
        elif command == "@":
            row = self._cells[self._y]
            row[self._x:self._x] = [" "] * count
            del row[self._columns:]
