"""The demo's script: a system prompt as agents have it, and what the user's side says turn by turn.

A step of the script is (label, conversation, text): the text is that conversation's next user message; the main one's
labels are numbers. KILL stands for a kill -9 of the server and its restart. The assistant's side is whatever the model
answers.
"""

KILL = object()

SYSTEM = """You are Rake, a coding agent that works in a terminal on the repository of a small bookkeeping program.
You work in steps. In each step you either call one tool or give your final answer. A tool call is one line of JSON
with the keys "tool" and "arguments". The result of the call is the next message. Never guess what a file contains:
read it. Never claim that a test passes before you have run it.

Tools:
- {"tool": "list_files", "arguments": {"folder": "text", "pattern": "text"}}
  Lists the files below a folder whose names match the pattern, one per line with its size in bytes. Folders that the
  repository ignores are left out. At most 200 lines; narrow the pattern when the list was cut.
- {"tool": "read_file", "arguments": {"path": "text", "first_line": 1, "last_line": 200}}
  Returns the given lines, each with its number. Lines longer than 400 characters are cut. Reading a file that does not
  exist is an error, not an empty result.
- {"tool": "search", "arguments": {"expression": "text", "folder": "text"}}
  Searches for a regular expression and returns path, line number and line of each match, at most 100.
- {"tool": "edit_file", "arguments": {"path": "text", "old": "text", "new": "text"}}
  Replaces one piece of text by another. The old text must occur exactly once, white space included; otherwise nothing
  is changed and the result says how often it occurs.
- {"tool": "run", "arguments": {"command": "text", "limit_s": 60}}
  Runs a command in the root of the repository without network. Returns the exit status and the last 100 lines of
  output. A command that takes longer than its limit is ended.
- {"tool": "done", "arguments": {"summary": "text"}}
  Ends the task. The summary says what was wrong, what was changed and which tests were run.

Rules of this repository:
1. Amounts are integers in cents. A floating point number never holds money, not even between two steps.
2. Days are calendar days of the ledger's own time zone. Only the module "days" converts between moments and days.
3. Each change comes with a test that fails without it. Tests stand beside the code and are named test_*.py.
4. Public functions have a comment that says units, what is returned for an empty ledger, and which errors are raised.
5. No new dependencies. What the standard library has is used from there.
6. A commit does one thing. Its message begins with the module's name and says why, not what.
7. Files under "ledgers/examples" are read by the tests and by the manual: never edit them to make a test pass.
8. Error messages name the file and the line of the entry that is wrong, so that the user can go there.

How to answer:
Keep explanations short. Say what you are about to do in one sentence, then call the tool. When a result surprises you,
say so and look again before you change anything. When two explanations are possible, find the test that tells them
apart. If you cannot reproduce a fault after three attempts, report what you tried instead of changing code. Do not
apologise, do not repeat the task, and do not describe what a tool would return: call it. When the user corrects you,
the correction holds for the rest of the task.

The working folder is /home/user/rake-ledger on a machine with two processors. The branch is "month-ends". The last
three commits are "days: name the zone in errors", "report: totals per account" and "import: skip empty lines".
"""

_MAIN = [
    """The monthly report puts entries of 31 March into April for some users. Find out why and mend it.""",
    """status 0
rake/days.py 2114
rake/entry.py 1630
rake/ledger.py 5402
rake/report.py 4077
rake/test_days.py 1288
rake/test_report.py 2915""",
    """ 1 from datetime import datetime, timedelta, timezone
 2 import zoneinfo
 3
 4 def day_of(moment, zone):
 5     \"\"\"The calendar day of a moment in the zone of a ledger.\"\"\"
 6     local = moment.astimezone(zoneinfo.ZoneInfo(zone))
 7     return local.date()
 8
 9 def month_of(moment, zone):
10     \"\"\"(year, month) of a moment.\"\"\"
11     return moment.year, moment.month""",
    """rake/report.py:14:from rake.days import day_of, month_of
rake/report.py:52:        month = month_of(entry.moment, ledger.zone)
rake/report.py:88:    last = month_of(ledger.entries[-1].moment, ledger.zone)
rake/test_report.py:31:    assert month_of(entry.moment, "UTC") == (2023, 3)""",
    """status 1
rake/test_report.py F......
_______________ test_month_of_the_evening _______________
    entry = Entry(moment="2023-03-31T23:30:00-05:00", cents=1250)
>   assert month_of(entry.moment, "America/Chicago") == (2023, 3)
E   assert (2023, 4) == (2023, 3)
1 failed, 6 passed in 0.31 s""",
    """edited rake/days.py: 1 replacement
 9 def month_of(moment, zone):
10     \"\"\"(year, month) of a moment in the zone of a ledger.\"\"\"
11     day = day_of(moment, zone)
12     return day.year, day.month""",
    """status 0
rake/test_days.py .....
rake/test_report.py .......
12 passed in 0.28 s
Good. Is the same mistake made in any other place? Look before you commit.""",
    """rake/import_csv.py:41:    year, month = row.moment.year, row.moment.month
rake/import_csv.py:77:        key = (row.moment.year, row.account)
rake/ledger.py:120:        if entry.moment.date() > self.closed_until:
3 matches""",
    """37 def by_month(rows):
38     \"\"\"Groups rows of a bank's file by month, in the order of the file.\"\"\"
39     groups = {}
40     for row in rows:
41         year, month = row.moment.year, row.moment.month
42         groups.setdefault((year, month), []).append(row)
43     return groups
The bank's file has no zone: its times are already local. So line 41 is right, is it not?""",
    """115     def add(self, entry):
116         \"\"\"Adds an entry. Raises ClosedError when its day lies in a closed period.\"\"\"
117         if not isinstance(entry.cents, int):
118             raise TypeError(f"{entry.path}:{entry.line}: cents must be an integer")
119         if self.closed_until is not None:
120             if entry.moment.date() > self.closed_until:
121                 self._append(entry)
122                 return
123             raise ClosedError(f"{entry.path}:{entry.line}: the period is closed")""",
    """edited rake/ledger.py: 1 replacement
edited rake/test_ledger.py: 1 replacement
status 0
rake/test_days.py .....
rake/test_ledger.py ..........
rake/test_report.py .......
22 passed in 0.44 s""",
    """[month-ends 4be1f07] days: months follow the ledger's zone, as days do
 4 files changed, 31 insertions(+), 4 deletions(-)
Thank you. Now write the summary.""",
]

_SIDE = [
    """Another task: the manual says that "rake export" writes one file per year, but it writes one per account. Which of
the two is right? Read the code and tell me; change nothing yet.""",
    """12 def export(ledger, folder):
13     \"\"\"Writes each account's entries to a file of its own, named after the account.\"\"\"
14     for account in ledger.accounts():
15         path = folder / f"{account.name}.csv"
16         write_rows(path, account.entries)""",
]


def steps(turns):
    """The script with that many turns of the main conversation (6 or 12): the kill comes half way, and the second
    conversation speaks a turn before and a turn after it."""
    main = [(str(at + 1), "main", text) for at, text in enumerate(_MAIN[:turns])]
    first, second = [(f"B{at + 1}", "side", text) for at, text in enumerate(_SIDE)]
    half, quarter = turns // 2, turns // 4
    return main[:quarter] + [first] + main[quarter:half] + [KILL] + main[half:-quarter] + [second] + main[-quarter:]
