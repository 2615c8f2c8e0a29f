// Written for this file. The mix of words and turns of phrase matters, not the story.

#include "model_maker/sample_text.h"

namespace kvkeep::gguf {

std::string_view sample_prose() {
  return R"text(You are a helpful coding assistant that works in a terminal. You can read files, search the project, edit code and run commands. Think about the task before you act, and keep your answers short. When you are not sure what the user wants, ask one question instead of guessing. Never change files that have nothing to do with the task, and never delete anything that you did not create yourself.

You have access to a set of tools. Use the read tool to look at a file before you edit it. Use the search tool to find where a function is defined and where it is called. Use the bash tool to build the project and to run the tests. If a command fails, read the error message, say what you think the cause is, and try again with a smaller change. Do not repeat a command that has already failed in the same way.

When the work is done, write a short summary: what was changed, why it was changed, and how it was tested. If something is still missing, say so. The user prefers an honest report to a long one. Do not add comments that only repeat what the code says. Follow the style of the files around you, even where you would have done it differently.

The following information describes the environment in which you are running. The working directory is the root of a git repository. The platform is Linux. The current branch is main, and there are a few files that have not been committed yet. These changes may have been made by the user; leave them alone unless you are asked to do something with them.

Hello! Could you please help me with a problem in my project? Since yesterday the server does not start any more. It prints that the address is already in use, but I cannot find another process that listens on the same port. I have tried to restart the machine, and I have also tried to use a different port number, but the result is always the same. What should I look at next?

Thank you, that was a good idea. There was an old service in the background which started again after every crash. I have stopped it now and the server runs without errors. One more question: is there a way to see how long each request takes? I would like to know which part of the program is slow before I change anything.

Sure. The easiest way is to write one line to the log when a request begins and another when it ends, with the time between them. For most programs this is good enough. If you need to know more, you can use a profiler, which looks at the running program many times in a second and counts how often it finds each function. The functions that are found most often are those where the time goes. Be careful with the results, though: a function that waits for the disk uses no processor time, and it will not appear in such a list at all.

Let me explain how the cache works. Each time a client sends a message, it sends the whole conversation again, from the first word to the last. The model has seen almost all of these words before, and what it computed for them has not changed. So it is a waste of time to compute it again. Instead we keep the results in memory, and when memory is full we write them to disk. When the next request arrives, we compare its tokens with those that we know, find the longest common prefix, load what belongs to it, and compute only what is new. For a long conversation this makes the difference between half a minute and half a second.

There are a few things that make this harder than it sounds. First, the text that comes back from the client is not always the text that was sent. Some clients remove the thoughts of the model, some add the date or the state of the repository, and some write the same numbers in a different order. Second, not every model can go back to an earlier point. Third, a computer may lose power at any moment, and whatever is on the disk afterwards must either be right or be ignored. A cache is allowed to forget, but it is never allowed to lie.

I opened the window this morning and saw that it had rained all night. The street was still wet, the leaves of the old tree in front of the house were shining, and two children were jumping from one puddle to the next on their way to school. Their mother walked behind them with a bag in each hand and called out that they should hurry, but she was laughing as well. It was the first warm day of the year.

My grandfather used to repair clocks. His workshop was a small room behind the kitchen, with one large table and hundreds of little drawers. As a child I was allowed to sit beside him, if I promised to touch nothing. He would take a watch apart, lay out its wheels and springs in a row, clean each of them with a soft brush, and put them together again without ever looking at a plan. When I asked him how he could remember where everything belonged, he said that he did not remember it at all. Every part fits in only one place, he said, and you only have to look until you see it.

Water boils at a lower temperature in the mountains, because the air above it presses less. That is why food takes longer to cook there. People who live in high places know this well, and they either start earlier or close the pot with a heavy lid. The same effect, turned around, is used in hospitals: under high pressure, steam becomes much hotter than boiling water and kills everything that might make a patient ill.

The history of the city begins with a bridge. For many days' walk up and down the river there was no other place where a wagon could cross, and so the traders came together here, first for a night, then for a market, and finally for good. They built houses of wood, and after the great fire they built houses of stone. The wall around the old town was taken down a long time ago, but you can still see from the names of the streets where it used to stand.

Most people believe that they decide with their head. Studies show a different picture: we often know within a few seconds what we want, and spend the rest of the time looking for reasons. This is not necessarily bad. A person who has done something a thousand times has learnt more than he or she can put into words. But it does mean that we should be suspicious of our own arguments, particularly when they lead to exactly the result that we hoped for.

If you want to learn a new language, do not begin with the grammar. Begin with a few hundred words that you need every day, and use them from the first hour, even if every sentence is wrong. Children learn that way, and nobody has ever met a child who failed. Later, when you have something to say, the rules will be interesting, because they will answer questions that you already have.

Dear colleagues, the meeting on Thursday will start at ten o'clock instead of nine, because some of us have to travel. Please send me your reports by Wednesday evening, so that everybody has enough time to read them. We will talk about the budget for next year, about the two open positions, and about the question whether the office should move. If there is anything else that you would like to discuss, let me know. Best regards.

The report says that sales increased by twelve percent during the last quarter, while costs remained about the same. The company plans to open three new stores before the end of the year and to hire about two hundred people. Analysts were surprised by the numbers, since the market as a whole had become smaller. However, they also warned that the price of energy could rise again in winter, and that higher interest rates would make it more difficult to pay for the new buildings.

How does a compiler work? It reads the source text and cuts it into words, it builds a tree from the words, it checks that the types of the tree fit together, and then it translates the tree into instructions for the machine. On the way it tries to make the program faster: it removes what is never used, it computes in advance what does not depend on the input, and it keeps values in registers as long as possible. Modern compilers are so good at this that it is rarely worth the effort to do it by hand. What they cannot do is choose a better algorithm for you.

What is the difference between a thread and a process? A process has its own memory, and another process cannot look into it without asking the operating system. Threads live inside a process and share its memory. That makes it easy for them to work together, and just as easy to step on each other's feet: if two threads change the same value at the same time, the result may be neither what the first nor what the second intended. To prevent this, a thread takes a lock before it touches the value and gives it back afterwards. If two threads wait for each other's locks, both wait for ever, which is called a deadlock.

I think we should not merge this yet. The idea is right and the tests pass, but the new function does three things at once: it decides what to remove, it removes it, and it writes the log. If the removal fails in the middle, the log says something that did not happen. Could you split it, so that one part makes the decision from plain values and the other carries it out? Then the first part can be tested without a file system. Apart from that I only have small remarks, see the comments below. Thanks for working on this, it's a real improvement!

I've looked at the failing test. It doesn't fail because of your change; it fails whenever the machine is slow, since it waits for exactly one second and then expects the answer to be there. We shouldn't make the time longer, that'd only hide the problem. It's better to wait for the event itself and to let the test runner's own limit catch the case where it never comes. I'll send a patch tomorrow if you don't mind. They're also seeing it on the other branch, so we'll need it there too, and I'd like to know what you think before then.

Once there was a king who owned the largest library in the world, and yet he could not find the book he wanted. He asked his advisers. The first said: hire more servants, and let them search day and night. The second said: throw away the books that nobody reads. The third, a young woman who had grown up in a village, said nothing and went to work. She wrote the name of every book on a small card, together with the number of the shelf, and put the cards in order. It took her a year. After that, the king could find any book within a minute, and the servants, who were afraid that they would no longer be needed, found that for the first time they had time to read.

The weather tomorrow: in the north it will be cloudy with some rain in the afternoon, with temperatures between eight and twelve degrees. In the south there will be sunshine for most of the day. The wind comes from the west and will become stronger in the evening. On Saturday and Sunday it stays dry and becomes a little warmer.

To make the bread you need flour, water, salt, and a little yeast. Mix everything in a large bowl until no dry flour is left, cover it, and leave it alone until the next morning. Then fold it a few times, let it rest for another hour while the oven becomes hot, and bake it for forty minutes. The most difficult part is to wait until it has cooled down before you cut it.

Question: A train leaves the station at eight in the morning and travels at ninety kilometers per hour. A second train leaves the same station an hour later, in the same direction, at one hundred and twenty. When does it reach the first? Answer: When the second train starts, the first is already ninety kilometers away. The second comes closer by thirty kilometers each hour, so it needs three hours. It reaches the first train at noon, three hundred and sixty kilometers from the station.

The user is asking me to find out why the build is broken. Let me start by looking at the error message. It says that a header file could not be found. The file exists, but it was moved to another directory in the last commit, so the include path must be wrong. I will check the build file first, then fix the path, and finally run the tests to make sure that nothing else depends on the old location.
)text";
}

// Written for this file: small programs in the languages that agents edit most.

std::string_view sample_code() {
  return R"text(#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace store {

// Keeps at most `capacity` entries; the one that was used least recently leaves first.
template <typename Key, typename Value>
class RecentMap {
 public:
  explicit RecentMap(std::size_t capacity) : capacity_(capacity) {}

  const Value* find(const Key& key) {
    auto it = index_.find(key);
    if (it == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return &it->second->value;
  }

  void insert(Key key, Value value) {
    if (auto it = index_.find(key); it != index_.end()) {
      it->second->value = std::move(value);
      return;
    }
    order_.push_front(Entry{key, std::move(value)});
    index_.emplace(std::move(key), order_.begin());
    if (order_.size() > capacity_) {
      index_.erase(order_.back().key);
      order_.pop_back();
    }
  }

  std::size_t size() const { return order_.size(); }
  bool empty() const { return order_.empty(); }

 private:
  struct Entry {
    Key key;
    Value value;
  };
  std::size_t capacity_;
  std::list<Entry> order_;
  std::unordered_map<Key, typename std::list<Entry>::iterator> index_;
};

struct Options {
  std::string path = "data";
  uint64_t budget_bytes = 64ull << 20;
  int threads = 4;
  bool verbose = false;
};

static int parse_options(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--verbose") {
      options->verbose = true;
    } else if (argument == "--threads" && i + 1 < argc) {
      options->threads = std::atoi(argv[++i]);
    } else if (argument.starts_with("--")) {
      fprintf(stderr, "unknown option: %s\n", argv[i]);
      return 1;
    } else {
      options->path = argument;
    }
  }
  return 0;
}

}  // namespace store

int main(int argc, char** argv) {
  store::Options options;
  if (int result = store::parse_options(argc, argv, &options); result != 0) return result;
  auto file = std::unique_ptr<FILE, int (*)(FILE*)>(fopen(options.path.c_str(), "rb"), fclose);
  if (file == nullptr) {
    perror(options.path.c_str());
    return 1;
  }
  std::vector<uint8_t> buffer(4096);
  size_t total = 0;
  while (size_t count = fread(buffer.data(), 1, buffer.size(), file.get())) {
    total += count;
  }
  printf("%zu bytes\n", total);
  return 0;
}

TEST(RecentMapTest, ForgetsTheOldestEntry) {
  store::RecentMap<int, std::string> map(2);
  map.insert(1, "one");
  map.insert(2, "two");
  map.insert(3, "three");
  EXPECT_EQ(map.find(1), nullptr);
  ASSERT_NE(map.find(3), nullptr);
  EXPECT_EQ(*map.find(3), "three");
  EXPECT_TRUE(map.size() == 2 && !map.empty());
}

/* Reads exactly n bytes unless the file ends before; returns -1 and sets errno on error. */
static ssize_t read_full(int fd, void *buf, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t got = read(fd, (char *)buf + done, n - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

#define MAX_LEN 256
#ifndef NDEBUG
#define LOG(...) fprintf(stderr, __VA_ARGS__)
#else
#define LOG(...) ((void)0)
#endif

struct node {
    struct node *next;
    unsigned int hash;
    char name[MAX_LEN];
};

static void free_list(struct node *head) {
    for (struct node *next; head != NULL; head = next) {
        next = head->next;
        free(head);
    }
}

#!/usr/bin/env python3
"""Counts the words of text files and prints the most frequent ones."""

import argparse
import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional


@dataclass
class Report:
    name: str
    total: int = 0
    words: Counter = field(default_factory=Counter)
    errors: List[str] = field(default_factory=list)

    def to_dict(self) -> Dict[str, Any]:
        return {"name": self.name, "total": self.total, "words": dict(self.words.most_common(10))}


def count_words(path: Path, pattern: Optional[str] = None) -> Report:
    report = Report(name=str(path))
    regex = re.compile(pattern or r"\w+")
    try:
        with open(path, "r", encoding="utf-8") as file:
            for line in file:
                for word in regex.findall(line.lower()):
                    report.words[word] += 1
                    report.total += 1
    except (OSError, UnicodeDecodeError) as error:
        report.errors.append(f"{path}: {error}")
    return report


class Client:
    def __init__(self, base_url: str, timeout: float = 30.0) -> None:
        self.base_url = base_url.rstrip("/")
        self.timeout = timeout
        self.session = None

    async def get(self, path: str, params: dict | None = None) -> dict:
        async with self.session.get(self.base_url + path, params=params) as response:
            if response.status != 200:
                raise RuntimeError(f"request failed with status {response.status}")
            return await response.json()

    def __repr__(self) -> str:
        return f"Client({self.base_url!r})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="files to read")
    parser.add_argument("--output", default=None, help="write the result to this file")
    args = parser.parse_args()
    results = [count_words(path).to_dict() for path in args.files if path.exists()]
    text = json.dumps(results, indent=2, sort_keys=True)
    if args.output is not None:
        with open(args.output, "w") as out:
            out.write(text + "\n")
    else:
        print(text)
    return 0 if all(result["total"] > 0 for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())


def test_count_words(tmp_path):
    path = tmp_path / "input.txt"
    path.write_text("the cat and the dog\n")
    report = count_words(path)
    assert report.total == 5
    assert report.words["the"] == 2
    assert not report.errors

import express from "express";
import { readFile, writeFile } from "node:fs/promises";
import type { Request, Response } from "express";

export interface User {
  id: number;
  name: string;
  email?: string;
  roles: string[];
  createdAt: Date;
}

const users = new Map<number, User>();
let nextId = 1;

export async function loadUsers(file: string): Promise<void> {
  const data = JSON.parse(await readFile(file, "utf8")) as User[];
  for (const user of data) {
    users.set(user.id, { ...user, createdAt: new Date(user.createdAt) });
    nextId = Math.max(nextId, user.id + 1);
  }
}

const app = express();
app.use(express.json());

app.get("/users/:id", (req: Request, res: Response) => {
  const user = users.get(Number(req.params.id));
  if (!user) {
    return res.status(404).json({ error: "user not found" });
  }
  res.json(user);
});

app.post("/users", async (req, res, next) => {
  try {
    const { name, email } = req.body;
    if (typeof name !== "string" || name.length === 0) {
      throw new Error("name is required");
    }
    const user = { id: nextId++, name, email, roles: ["reader"], createdAt: new Date() };
    users.set(user.id, user);
    res.status(201).json(user);
  } catch (error) {
    next(error);
  }
});

function debounce(callback, delay = 100) {
  let timer = null;
  return function (...args) {
    clearTimeout(timer);
    timer = setTimeout(() => callback.apply(this, args), delay);
  };
}

document.querySelectorAll("button.delete").forEach((button) => {
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    const response = await fetch(`/users/${button.dataset.id}`, { method: "DELETE" });
    if (response.ok) {
      button.closest("li").remove();
    } else {
      console.error("could not delete", await response.text());
    }
  });
});

export default function TodoList({ items, onToggle }) {
  const [filter, setFilter] = useState("all");
  const visible = items.filter((item) => filter === "all" || item.done === (filter === "done"));
  return (
    <div className="todo-list">
      <select value={filter} onChange={(event) => setFilter(event.target.value)}>
        <option value="all">All</option>
        <option value="done">Done</option>
      </select>
      <ul>
        {visible.map((item) => (
          <li key={item.id} onClick={() => onToggle(item.id)}>{item.title}</li>
        ))}
      </ul>
    </div>
  );
}

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub lines: usize,
    pub counts: HashMap<String, u64>,
}

impl Summary {
    pub fn from_path(path: &str) -> io::Result<Self> {
        let reader = BufReader::new(File::open(path)?);
        let mut summary = Summary::default();
        for line in reader.lines() {
            let line = line?;
            summary.lines += 1;
            for word in line.split_whitespace() {
                *summary.counts.entry(word.to_string()).or_insert(0) += 1;
            }
        }
        Ok(summary)
    }
}

package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

type Server struct {
	addr    string
	handler http.Handler
	timeout time.Duration
}

func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{Addr: s.addr, Handler: s.handler, ReadTimeout: s.timeout}
	go func() {
		<-ctx.Done()
		_ = srv.Shutdown(context.Background())
	}()
	if err := srv.ListenAndServe(); err != nil && err != http.ErrServerClosed {
		return fmt.Errorf("listen on %s: %w", s.addr, err)
	}
	return nil
}

SELECT customers.id, customers.name, COUNT(orders.id) AS order_count, SUM(orders.amount) AS total
FROM customers
LEFT JOIN orders ON orders.customer_id = customers.id
WHERE customers.created_at >= '2024-01-01' AND orders.status = 'paid'
GROUP BY customers.id, customers.name
HAVING COUNT(orders.id) > 3
ORDER BY total DESC
LIMIT 20;

cmake_minimum_required(VERSION 3.25)
project(example LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Threads REQUIRED)
add_library(core STATIC src/core.cc src/parser.cc)
target_include_directories(core PUBLIC include)
target_link_libraries(core PRIVATE Threads::Threads)
add_executable(tool src/main.cc)
target_link_libraries(tool PRIVATE core)
enable_testing()
add_test(NAME core_test COMMAND core_test --verbose)

<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>Status</title>
  <link rel="stylesheet" href="style.css">
</head>
<body>
  <h1 id="title">Status</h1>
  <p class="message">Everything is <strong>running</strong>.</p>
  <a href="https://example.com/docs/index.html">Documentation</a>
  <script src="app.js" type="module"></script>
</body>
</html>

.container { display: flex; margin: 0 auto; padding: 16px; max-width: 960px; }
.button:hover { background-color: #0366d6; color: white; border-radius: 4px; font-size: 14px; }
)text";
}

// Written for this file: output of tools, and messages between clients and servers.

std::string_view sample_data() {
  return R"text({"model": "default", "messages": [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": "List the files in the current directory."}], "stream": true, "temperature": 0.7, "max_tokens": 1024, "tools": [{"type": "function", "function": {"name": "bash", "description": "Runs a command in the shell and returns its output.", "parameters": {"type": "object", "properties": {"command": {"type": "string", "description": "The command to run"}, "timeout": {"type": "number", "description": "Seconds to wait"}}, "required": ["command"]}}}, {"type": "function", "function": {"name": "read_file", "description": "Reads a file from the file system. The path must be absolute.", "parameters": {"type": "object", "properties": {"file_path": {"type": "string"}, "offset": {"type": "integer"}, "limit": {"type": "integer"}}, "required": ["file_path"], "additionalProperties": false}}}, {"type": "function", "function": {"name": "edit_file", "description": "Replaces text in a file.", "parameters": {"type": "object", "properties": {"file_path": {"type": "string"}, "old_string": {"type": "string"}, "new_string": {"type": "string"}, "replace_all": {"type": "boolean", "default": false}}, "required": ["file_path", "old_string", "new_string"]}}}]}
<tool_call>
{"name": "bash", "arguments": {"command": "ls -la src && git status --short"}}
</tool_call>
<tool_call>
{"name": "read_file", "arguments": {"file_path": "/home/user/project/src/main.cc", "offset": 0, "limit": 200}}
</tool_call>
{"id": "chatcmpl-123", "object": "chat.completion", "created": 1712345678, "model": "default", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done.", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{\"query\": \"error\", \"path\": \"src\"}"}}]}, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 120, "completion_tokens": 15, "total_tokens": 135, "prompt_tokens_details": {"cached_tokens": 100}}}
{
  "name": "example-app",
  "version": "1.4.2",
  "description": "A small example",
  "private": true,
  "main": "dist/index.js",
  "scripts": {
    "build": "tsc --project tsconfig.json",
    "start": "node dist/index.js",
    "test": "vitest run",
    "lint": "eslint src --ext .ts"
  },
  "dependencies": {
    "express": "^4.18.2",
    "react": "^18.2.0"
  },
  "devDependencies": {
    "@types/node": "^20.1.0",
    "typescript": "^5.4.5"
  },
  "author": null,
  "license": "MIT"
}
[
  {"id": 1, "title": "First item", "price": 19.99, "tags": ["new", "sale"], "in_stock": true},
  {"id": 2, "title": "Second item", "price": 5.00, "tags": [], "in_stock": false},
  {"id": 3, "title": "Third item", "price": 120.50, "tags": ["large"], "in_stock": true}
]
{
    "status": "ok",
    "data": {
        "user": {
            "id": "a1b2c3",
            "first_name": "Anna",
            "last_name": "Miller",
            "email": "anna.miller@example.com",
            "active": true,
            "address": {
                "street": "Main Street 12",
                "city": "Springfield",
                "country": "US"
            }
        },
        "items": [],
        "count": 0,
        "next": null
    },
    "error": null
}

$ git status
On branch main
Your branch is up to date with 'origin/main'.

Changes not staged for commit:
  (use "git add <file>..." to update what will be committed)
	modified:   src/server.cc
	modified:   tests/server_test.cc

Untracked files:
  (use "git add <file>..." to include in what will be committed)
	notes.txt

$ ls -la
total 48
drwxr-xr-x  6 user user 4096 Mar  3 10:12 .
drwxr-xr-x 20 user user 4096 Mar  1 09:00 ..
drwxr-xr-x  8 user user 4096 Mar  3 10:12 .git
-rw-r--r--  1 user user  220 Mar  1 09:00 .gitignore
-rw-r--r--  1 user user 1834 Mar  2 17:45 CMakeLists.txt
-rw-r--r--  1 user user 3120 Mar  1 09:00 README.md
drwxr-xr-x  2 user user 4096 Mar  3 10:10 src
drwxr-xr-x  2 user user 4096 Mar  2 18:30 tests
-rwxr-xr-x  1 user user  512 Mar  1 09:00 run.sh

$ cmake --build build -j4
[1/12] Building CXX object src/CMakeFiles/core.dir/parser.cc.o
[2/12] Building CXX object src/CMakeFiles/core.dir/server.cc.o
FAILED: src/CMakeFiles/core.dir/server.cc.o
src/server.cc:42:17: error: no member named 'port' in 'Options'
   42 |     int port = options.port;
      |                ~~~~~~~ ^
src/server.cc:57:5: warning: unused variable 'result' [-Wunused-variable]
1 error and 1 warning generated.
ninja: build stopped: subcommand failed.

$ ctest --test-dir build
Test project /home/user/project/build
    Start 1: base_test
1/3 Test #1: base_test ........................   Passed    0.02 sec
    Start 2: store_test
2/3 Test #2: store_test .......................   Passed    0.41 sec
    Start 3: server_test
3/3 Test #3: server_test ......................***Failed    1.30 sec

67% tests passed, 1 tests failed out of 3

$ pytest -q
....F...                                                                 [100%]
=================================== FAILURES ===================================
_______________________________ test_load_config _______________________________

    def test_load_config():
>       assert load_config("missing.json") == {}
E       FileNotFoundError: [Errno 2] No such file or directory: 'missing.json'

tests/test_config.py:14: FileNotFoundError
=========================== short test summary info ============================
FAILED tests/test_config.py::test_load_config - FileNotFoundError: [Errno 2]
1 failed, 7 passed in 0.35s

Traceback (most recent call last):
  File "/home/user/project/main.py", line 27, in <module>
    main()
  File "/home/user/project/main.py", line 19, in main
    value = config["timeout"]
KeyError: 'timeout'

$ grep -rn "TODO" src | head -5
src/parser.cc:88:  // TODO: handle escapes
src/server.cc:120:  // TODO: limit the size of the request

$ for f in *.log; do echo "$f"; tail -n 3 "$f" | sed 's/^/  /'; done
$ if [ ! -d build ]; then mkdir -p build; fi; cd build && cmake .. -DCMAKE_BUILD_TYPE=Release > /dev/null 2>&1
$ export PATH="$HOME/.local/bin:$PATH"; sudo systemctl restart nginx
$ curl -s -X POST http://localhost:8080/v1/chat/completions -H "Content-Type: application/json" -d @request.json | jq '.choices[0].message.content'
$ docker run --rm -it -v "$PWD:/work" -p 8080:80 python:3.12 bash
$ npm install && npm run build

2024-03-03 10:15:42 INFO  server started on 127.0.0.1:8080
2024-03-03 10:15:47 INFO  GET /health 200 0.4 ms
2024-03-03 10:16:02 WARN  slow request: POST /v1/chat/completions took 2310 ms
2024-03-03 10:16:09 ERROR connection reset by peer

diff --git a/src/server.cc b/src/server.cc
index 3f2a1bc..9d8e7f6 100644
--- a/src/server.cc
+++ b/src/server.cc
@@ -39,7 +39,9 @@ Status Server::start(const Options& options) {
   if (running_) return Status::invalid("already running");
-  int port = options.port;
+  const int port = options.port;
+  if (port < 0 || port > 65535) return Status::invalid("port out of range");
   socket_ = open_socket(options.host, port);
   return Status::ok();
 }

# Getting started

This project is a small **web server** written in C++. It has no dependencies apart from the standard library.

## Installation

1. Clone the repository
2. Build it with `cmake -B build && cmake --build build`
3. Start the server: `./build/server --port 8080`

## Options

| Option | Default | Description |
|---|---|---|
| `--port` | 8080 | the port to listen on |
| `--threads` | 4 | number of worker threads |
| `--verbose` | off | print every request |

## Usage

- Open `http://localhost:8080` in your browser.
- See [the documentation](docs/index.md) for more examples.
- [ ] Write more tests
- [x] Support HTTPS

```python
import requests

response = requests.get("http://localhost:8080/health", timeout=5)
print(response.status_code, response.json())
```

```bash
make test
```

> **Note:** this is not ready for production.

name: build
on:
  push:
    branches: [main]
  pull_request:
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - name: Build
        run: cmake -B build && cmake --build build
      - name: Test
        run: ctest --test-dir build --output-on-failure

[package]
name = "example"
version = "0.1.0"
edition = "2021"

[dependencies]
serde = { version = "1.0", features = ["derive"] }
)text";
}

// With these lists the sample texts can be short: a word in a list becomes one token or a few.

std::string_view sample_words() {
  return R"text( able about above accept access according account across act action activity actually add addition address
 admit adult affect after again against age agency agent ago agree agreement ahead air all allow almost alone along
 already also although always among amount analysis and animal another answer any anyone anything appear apply
 approach area argue argument arm around arrive art article as ask assume at attack attempt attention author available
 avoid away baby back bad bag ball bank bar base be beat beautiful because become bed before begin behavior behind
 believe benefit best better between beyond big bill billion bit black blood blue board body book born both box boy break
 bring brother budget build building business but buy by call camera campaign can capital car card care career
 carry case catch cause cell center central century certain certainly chair challenge chance change character charge
 check child choice choose church citizen city claim class clear clearly close coach cold collection college color come
 commercial common community company compare computer concern condition conference consider contain continue control
 cost could country couple course court cover create crime culture cup current customer cut dark data daughter day dead
 deal death debate decade decide decision deep defense degree democratic describe design despite detail determine
 develop development die difference different difficult dinner direction director discover discuss discussion disease
 do doctor dog door down draw dream drive drop drug during each early east easy eat economic economy edge education
 effect effort eight either election else employee end energy enjoy enough enter entire environment environmental
 especially establish even evening event ever every everybody everyone everything evidence exactly example executive
 exist expect experience expert explain eye face fact factor fail fall family far fast father fear federal feel feeling
 few field fight figure fill film final finally financial find fine finger finish fire firm first fish five floor fly
 focus follow food foot for force foreign forget form former forward four free friend from front full fund future game
 garden gas general generation get girl give glass go goal good government great green ground group grow growth guess
 gun guy hair half hand hang happen happy hard have he head health hear heart heat heavy help her here herself high
 him himself his history hit hold home hope hospital hot hotel hour house how however huge human hundred husband idea
 identify if image imagine impact important improve in include including increase indeed indicate individual industry
 information inside instead institution interest interesting international interview into investment involve issue it
 item its itself job join just keep key kid kill kind kitchen know knowledge land language large last late later laugh
 law lawyer lay lead leader learn least leave left leg legal less let letter level lie life light like likely line list
 listen little live local long look lose loss lot love low machine magazine main maintain major majority make man manage
 management manager many market marriage material matter may maybe me mean measure media medical meet meeting member
 memory mention message method middle might military million mind minute miss mission model modern moment money month
 more morning most mother mouth move movement movie much music must my myself name nation national natural nature near
 nearly necessary need network never new news newspaper next nice night no none nor north not note nothing notice now
 number occur of off offer office officer official often oh oil ok old on once one only onto open operation opportunity
 option or order organization other others our out outside over own owner page pain painting paper parent part
 participant particular particularly partner party pass past patient pattern pay peace people per perform performance
 perhaps period person personal phone physical pick picture piece place plan plant play player point police policy
 political politics poor popular population position positive possible power practice prepare present president
 pressure pretty prevent price private probably problem process produce product production professional professor
 program project property protect prove provide public pull purpose push put quality question quickly quite race radio
 raise range rate rather reach read ready real reality realize really reason receive recent recently recognize record
 red reduce reflect region relate relationship religious remain remember remove report represent require research
 resource respond response responsibility rest result return reveal rich right rise risk road rock role room rule run
 safe same save say scene school science scientist score sea season seat second section security see seek seem sell
 send senior sense series serious serve service set seven several shake share she shoot short shot should shoulder show
 side sign significant similar simple simply since sing single sister sit site situation six size skill skin small
 smile so social society soldier some somebody someone something sometimes son song soon sort sound source south
 southern space speak special specific speech spend sport spring staff stage stand standard star start state statement
 station stay step still stock stop store story strategy street strong structure student study stuff style subject
 success successful such suddenly suffer suggest summer support sure surface system table take talk task tax teach
 teacher team technology television tell ten tend term test than thank that the their them themselves then theory there
 these they thing think third this those though thought thousand threat three through throughout throw thus time to
 today together tonight too top total tough toward town trade traditional training travel treat treatment tree trial
 trip trouble true truth try turn two type under understand unit until up upon us use usually value various very victim
 view violence visit voice vote wait walk wall want war was watch water way we weapon wear week weight well were west
 western what whatever when where whether which while white who whole whom whose why wide wife will win wind window wish
 with within without woman wonder word work worker world worry would write writer wrong yard yeah year yes yet you young
 your yourself added asked became began being called came changed closed coming computed created decided described
 doing done expected failed felt followed found gave getting given giving going gone got had has having held helped
 included increased keeping kept knew known learned led left looked looking lost made making means meant moved needed
 needs opened paid passed playing put reading received required returned running said saw saying seen sent shown
 someone speaking spent started stopped taken taking talking tells things thinking told took tried trying turned used
 uses using waited walked wanted wants went words worked working works writes writing written wrote years
 apple bird bridge bright butter cheese clean clock cloud coat coffee corner cream dress dust empty engine farm flower
 forest fresh fruit gold grass hill horse ice island king kiss knife lake leaf lion milk mirror moon mountain mouse
 narrow needle ocean orange paint path pen plane plate pocket queen quiet rain river roof round salt sand shade sharp
 ship shoe silver sky sleep slow smoke snow soap soft soup square steel stick stone storm straight sugar sun sweet
 thick thin tiny train valley warm wave wheel wild wine wing winter wood yellow
 abort allocate append application argument array assert async attribute backend batch binary boolean branch browser
 buffer build bug byte cache callback chunk class client code column command comment commit compile compiler component
 config configuration connect connection const constructor container content context counter crash cursor daemon
 database debug declare default define delete deploy device directory disk document domain download driver edit editor
 element enable encode endpoint entry enum error exception execute exit export expression extension factory feature
 fetch field file filter flag folder format frame framework frontend function global graph handle handler hash header
 heap hook host icon implementation import index init initialize inline input insert install instance instruction int
 integer interface internal invalid iterator kernel key layer layout length library license link linux load loader lock
 log logger logic login loop macro main map mask match matrix merge metadata migration mock module monitor mutex node
 null object offset operator optional output override package panic parameter parse parser password patch payload
 permission pipeline pixel plugin pointer pool port prefix print private process profile prompt protocol proxy pull
 query queue random read refactor reference regex register release remote render replace repository request reset
 resolve restart retry return rollback root route router runtime sample schema scope script search segment select
 sequence serialize server session shell signal size slice socket sort source spawn split stack state static status
 stderr stdin stdout stream string struct submit switch symbol sync syntax tag target task template temporary terminal
 test text thread throw timeout timestamp token trace tree trigger tuple type unicode update upload url user username
 utility validate variable vector version view virtual void warning widget wrapper write
 self.assertEqual self.name self.value this.state this.props std::vector std::string std::size_t std::move std::optional
 std::uint32_t std::uint64_t std::int64_t nullptr const auto& static_cast<int> static_cast<std::size_t> constexpr
 noexcept override public: private: protected: template <typename T> return false; return true; return nullptr; return 0;
 break; continue; else if (!ok) while (true) for (size_t i = 0; i < n; i++) for (int i = 0; i < n; ++i) switch (kind) case
 def __init__(self): return None if not isinstance(value, str): raise ValueError("expected") print(f"{name}") import numpy
 as np np.array pd.DataFrame lambda x: x, key=lambda try: except Exception as e: finally: with open( .append( .items()
 .join( .split( .strip() .format( .get( .keys() .values() .lower() .replace( .startswith( .endswith( .read() .close()
 const result = await let index = 0; function (err, data) { console.log( module.exports = require(" document.getElementById
 .length .push( .map((x) => .filter( .reduce( .then( .catch( JSON.stringify( Object.keys( Array.isArray( Promise.all(
 undefined => { }); }, }) === !== && || ++ -- += -= << >> :: -> // /* */ /** */ """ ''' ``` --- *** ### ...
 "type": "string", "object", "number", "array", "name": "value": "id": "description": "content": "role": "user",
 "assistant", "tool", "path": "items": {" "required": [" "error": "message": "code": "status": "ok", true, false, null,
)text";
}

}  // namespace kvkeep::gguf
