#include "model_maker/sample_text.h"

// Written for this file: small programs in the languages that agents edit most.

namespace kvkeep::gguf {

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

}  // namespace kvkeep::gguf
