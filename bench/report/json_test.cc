#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <tuple>

#include "base/test_seed.h"
#include "bench/report/report.h"
#include "bench/report/report_fixture.h"

namespace kvkeep::bench {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// Compares field by field and without the list of keys, so that a key missing there is noticed here; a new field breaks
// the structured binding.
void expect_equal(const RequestFigures& left, const RequestFigures& right) {
  const auto fields = [](const RequestFigures& figures) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = figures;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
  };
  EXPECT_EQ(fields(left), fields(right));
}

void expect_equal(const RunFigures& left, const RunFigures& right) {
  const auto fields = [](const RunFigures& figures) {
    const auto& [a, b, c, d, e, f, requests, g, h, i, j, k, l] = figures;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  };
  EXPECT_EQ(fields(left), fields(right));
  ASSERT_EQ(left.requests.size(), right.requests.size());
  for (std::size_t i = 0; i < left.requests.size(); ++i) expect_equal(left.requests[i], right.requests[i]);
}

void expect_equal(const PartFigures& left, const PartFigures& right) {
  const auto fields = [](const PartFigures& figures) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = figures;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  };
  EXPECT_EQ(fields(left), fields(right));
}

void expect_equal(const ServerInfo& left, const ServerInfo& right) {
  const auto& [name, version, flags] = left;
  EXPECT_EQ(std::tie(name, version, flags), std::tie(right.name, right.version, right.flags));
}

void expect_equal(const Report& left, const Report& right) {
  const auto fields = [](const Report& report) {
    const auto& [a, b, c, d, e, machine, servers, runs, parts, problems, j] = report;
    const auto& [f, g, h, i] = machine;
    return std::tie(a, b, c, d, e, f, g, h, i, problems, j);
  };
  EXPECT_EQ(fields(left), fields(right));
  const auto each = [](const auto& lefts, const auto& rights) {
    ASSERT_EQ(lefts.size(), rights.size());
    for (std::size_t i = 0; i < lefts.size(); ++i) expect_equal(lefts[i], rights[i]);
  };
  each(left.servers, right.servers);
  each(left.runs, right.runs);
  each(left.parts, right.parts);
}

class RandomReport {
 public:
  explicit RandomReport(std::uint64_t seed) : random_(seed) {}

  Report report() {
    Report report{
        text(), text(), text(), text(), text(), {text(), static_cast<std::uint32_t>(random_()), random_(), text()},
        {},     {},     {},     {},     text()};
    for (auto n = count(); n > 0; --n) report.servers.push_back({text(), text(), text()});
    for (auto n = count(); n > 0; --n) report.runs.push_back(run());
    for (auto n = count(); n > 0; --n) {
      report.parts.push_back(
          {text(), text(), number(), number(), number(), random_(), text(), perhaps(random_() % 2 == 0), text()});
    }
    for (auto n = count(); n > 0; --n) report.problems.push_back(text());
    return report;
  }

 private:
  std::uint64_t count() { return random_() % 4; }

  template <typename Value>
  std::optional<Value> perhaps(Value value) {
    return random_() % 3 == 0 ? std::nullopt : std::optional(value);
  }

  // Valid UTF-8 with quotes, backslashes and control characters, including NUL.
  std::string text() {
    static const std::vector<std::string> pieces{"a",         "\"",   "\\",   "/",      "\n",     std::string(1, '\0'),
                                                 "\x1f",      "\x7f", "é",    "\u202e", "\u4e2d", "\U0001F600",
                                                 "</script>", "{",    "null", " "};
    std::string out;
    for (auto n = random_() % 8; n > 0; --n) out += pieces[random_() % pieces.size()];
    return out;
  }

  // Any finite bit pattern.
  double number() {
    while (true) {
      const double value = random_() % 4 == 0 ? static_cast<double>(random_() % 100) : std::bit_cast<double>(random_());
      if (std::isfinite(value)) return value;
    }
  }

  RequestFigures request() {
    return {
        text(),    static_cast<int>(random_()), text(), random_(), random_(), random_(), random_() >> (random_() % 64),
        random_(), perhaps(random_()),          text(), number(),  number(),  number()};
  }

  RunFigures run() {
    RunFigures run = run_of(text(), text(), text());
    run.variant = text();
    run.counted_by = random_() % 2 == 0 ? CountedBy::kEngine : CountedBy::kReply;
    run.bound = perhaps(number());
    run.kills = random_();
    run.sum_was_counted = random_() % 2 == 0;
    run.server_cpu_s = perhaps(number());
    run.known_before = random_() % 2 == 0 ? 0 : random_();
    run.refused = text();
    for (auto n = count(); n > 0; --n) run.requests.push_back(request());
    for (auto n = count(); n > 0; --n) run.problems.push_back(text());
    return run;
  }

  std::mt19937_64 random_;
};

TEST(Json, ComesBackAsItWas) {
  for (std::uint64_t round = 0; round < 1'000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const Report report = RandomReport(test_seed() + round).report();
    const Result<Report> read = read_json(to_json(report));
    ASSERT_TRUE(read.ok()) << read.error().message;
    expect_equal(report, *read);
  }
}

TEST(Json, KeysAndOrderAreStable) {
  const Json json = Json::parse(to_json(small_report()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, testing::ElementsAre("format", "version", "finding", "title", "started", "kvkeep_version",
                                         "libllama_version", "model", "machine", "servers", "runs", "parts", "problems",
                                         "other_work"));
  EXPECT_EQ(json["format"], "kvkeep-bench-report");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["runs"][1].dump(),
            R"({"workload":"growing","title":"12 growing turns","server":"llama-server","variant":"default cache",)"
            R"("counted_by":"reply","bound":1.02,"kills":0,"sum_was_counted":false,"server_cpu_seconds":null,)"
            R"("known_before":0,"refused":"","problems":["turn main 3: status 503, Loading model"],"requests":)" +
                json["runs"][1]["requests"].dump() +
                R"(,"totals":{"requests":3,"prompt_tokens":2180,"prefilled_tokens":2180,"ideal_tokens":1180,)"
                R"("ratio":1.847457627118644,"ttft_ms":{"low_quartile":41.75,"median":42.5,"high_quartile":43.25}}})");
  EXPECT_EQ(json["runs"][0]["requests"][1].dump(),
            R"({"label":"turn main 2","status":200,"error":"","prompt_tokens":1180,"cached_tokens":1000,)"
            R"("prefilled_tokens":180,"ideal_tokens":180,"reply_tokens":24,"claimed_prefill":180,)"
            R"("cache_source":"memory-token","ttft_ms":8.5,"total_ms":199.0,"decode_tokens_per_second":126.0})");
  EXPECT_EQ(
      json["parts"][2].dump(),
      R"({"name":"decode","unit":"us of CPU per token","median":1628.4,"low_quartile":1600.0,"high_quartile":1700.75,)"
      R"("samples":15,"goal":"","holds":null,"unmeasurable":"","is_count":false})");
}

TEST(Json, HostileReportsAreValidJson) {
  const std::string text = to_json(hostile_report());
  ASSERT_TRUE(Json::accept(text));
  const Result<Report> read = read_json(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(std::isnan(read->runs[0].requests[0].ttft_ms)) << "not finite is null, and null is not finite";
  EXPECT_EQ(to_json(*read), text) << "a second time nothing changes";
}

// The reader's error for a report in which one value, named by a JSON pointer, was replaced.
std::string error_with(const std::string& pointer, const Json& value) {
  Json json = Json::parse(to_json(small_report()));
  json[Json::json_pointer(pointer)] = value;
  const Result<Report> read = read_json(json.dump());
  return read.ok() ? "no error" : read.error().message;
}

TEST(Json, WrongTypesAreNamed) {
  EXPECT_EQ(error_with("/runs/1/requests/0/status", "200"),
            "runs[1].requests[0].status: must be a whole number from -2147483648 to 2147483647, is \"200\"");
  EXPECT_EQ(error_with("/runs/0/requests/1/prompt_tokens", -1),
            "runs[0].requests[1].prompt_tokens: must be a whole number from 0 to 18446744073709551615, is -1");
  EXPECT_EQ(error_with("/machine/logical_cpus", 4294967296),
            "machine.logical_cpus: must be a whole number from 0 to 4294967295, is 4294967296");
  EXPECT_EQ(error_with("/runs/0/kills", 1.5),
            "runs[0].kills: must be a whole number from 0 to 18446744073709551615, is 1.5");
  EXPECT_EQ(error_with("/title", nullptr), "title: must be a string, is null");
  EXPECT_EQ(error_with("/runs/0/counted_by", "guess"),
            "runs[0].counted_by: must be \"engine\" or \"reply\", is \"guess\"");
  EXPECT_EQ(error_with("/runs/0/problems", "none"), "runs[0].problems: must be an array, is \"none\"");
  EXPECT_EQ(error_with("/runs/0/bound", false), "runs[0].bound: must be a number, is false");
  EXPECT_EQ(error_with("/machine", Json::array()), "machine: must be an object, is an array");
  EXPECT_EQ(error_with("/parts/0/holds", 1), "parts[0].holds: must be true or false, is 1");
  EXPECT_EQ(error_with("/parts/0/median", "fast"), "parts[0].median: must be a number, is \"fast\"");
  EXPECT_EQ(error_with("/format", "other"), "format: must be \"kvkeep-bench-report\"");
  EXPECT_EQ(error_with("/version", 2), "version: this program reads version 1, the report is of version 2");
  EXPECT_EQ(error_with("/servers/0", "x"), "servers[0]: must be an object, is \"x\"");
  EXPECT_EQ(error_with("/more", "unknown keys are ignored"), "no error");
}

std::string path_of(const std::string& inside, const std::string& key) {
  return inside.empty() ? key : inside + "." + key;
}

// Keys that later programs added to version 1: a report without them is complete.
const std::set<std::string> kNewer = {"sum_was_counted", "server_cpu_seconds", "unmeasurable", "other_work",
                                      "known_before",    "is_count",           "refused"};

// Removes every key of every object, one at a time.
void expect_each_key_missed(Json& json, const std::string& path, const Json& root, int& seen) {
  if (json.is_array() && !json.empty()) return expect_each_key_missed(json[0], path + "[0]", root, seen);
  if (!json.is_object()) return;
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  for (const std::string& key : keys) {
    if (key == "totals" || key == "finding" || kNewer.contains(key)) continue;  // computed from the rest, or newer
    const Json whole = json;
    json.erase(key);
    const Result<Report> read = read_json(root.dump());
    ASSERT_FALSE(read.ok()) << path_of(path, key);
    EXPECT_EQ(read.error().message, path_of(path, key) + ": is missing");
    EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
    json = whole;
    ++seen;
    expect_each_key_missed(json[key], path_of(path, key), root, seen);
  }
}

TEST(Json, MissingKeysAreNamed) {
  Json json = Json::parse(to_json(small_report()));
  int seen = 0;
  expect_each_key_missed(json, "", json, seen);
  EXPECT_EQ(seen, 12 + 4 + 3 + 9 + 13 + 8);
}

TEST(Json, NewerKeysMayBeMissing) {
  Json json = Json::parse(to_json(small_report()));
  for (const char* key : {"sum_was_counted", "server_cpu_seconds"}) ASSERT_EQ(json["runs"][0].erase(key), 1U) << key;
  const Result<Report> read = read_json(json.dump());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->runs[0].server_cpu_s, std::nullopt);
  EXPECT_FALSE(read->runs[0].sum_was_counted);
}

TEST(Json, AnythingButAReportIsRefused) {
  for (const std::string text : {"", "{", "[]", "null", "1e999", "{\"format\":\"\xff\"}", "\xef\xbb\xbf", "{}{}"}) {
    const Result<Report> read = read_json(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
  }
  EXPECT_EQ(read_json("").error().message, "the file is empty");
  EXPECT_EQ(read_json(" \n").error().message, "the file is empty");
  EXPECT_EQ(read_json("{,}").error().message, "not JSON from line 1 on");
  EXPECT_EQ(read_json("{\n\"a\": 1,\n# kept\n}").error().message, "not JSON from line 3 on");
  EXPECT_EQ(read_json("GGUF\x03").error().message, "not JSON from line 1 on");
  EXPECT_EQ(read_json("{\"a\": [1,\n").error().message, "not JSON: it ends too early");
  EXPECT_EQ(read_json("1e999").error().message, "not JSON: a number in it is too large");
  EXPECT_EQ(read_json("[]").error().message, "a report is an object");
  EXPECT_EQ(read_json("{}").error().message, "format: is missing");
  EXPECT_FALSE(read_json(std::string(200'000, '[')).ok());
}

// Single bytes changed, cut and repeated: the result is an error or a report, never an exception.
TEST(Json, DamagedTextNeverThrows) {
  const std::string text = to_json(small_report());
  std::mt19937_64 random(test_seed());
  int refused = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string damaged = text;
    for (auto n = 1 + random() % 3; n > 0; --n) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    refused += read_json(damaged).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 1'000);
}

}  // namespace
}  // namespace kvkeep::bench
