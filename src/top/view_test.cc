#include "top/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvkeep::top {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kCache = R"({
  "model": "small.gguf", "memory_class": "sliceable", "now": 1060.5, "started": 1000,
  "cells": {"total": 4096, "used": 100, "shared": 0},
  "tiers": [{"name": "ram", "used_bytes": 10, "budget_bytes": 100}, {"name": "disk", "used_bytes": 5, "stopped": true},
            {"name": "shared", "published_bytes": 9}],
  "prompt_tokens": {"memory": 100, "ram": 20, "disk": 3, "prefill": 40, "new": 32, "again": 8},
  "saved": {"tokens": 123, "seconds": 12.5, "ever": {"tokens": 200, "seconds": 90}}, "requests": {"accepted": 7, "running": 1, "waiting": 2},
  "running": [{"task": 5, "prompt_tokens": 50, "ram_tokens": 20, "prefilled_tokens": 30, "predicted_tokens": 9,
               "queue_ms": 10, "prompt_ms": 75, "predicted_ms": 400, "state": "decoding",
               "waits_for": null}, {"task": 6, "state": "waiting", "waits_for": "place"}],
  "ended": [{"id": "a", "kind": "chat", "ended": 1059.5, "end": "stop", "prompt_tokens": 10, "disk_tokens": 8,
             "prefilled_tokens": 2, "predicted_tokens": 1, "prompt_ms": 33}, {"id": "b", "kind": "messages", "end": "error"}]
})";

TEST(View, ReadsTheCache) {
  View view;
  ASSERT_TRUE(read_cache(kCache, view));
  EXPECT_EQ(view.model, "small.gguf");
  EXPECT_EQ(view.uptime_s, 60.5);
  EXPECT_EQ(view.waiting, 2U);
  EXPECT_EQ(view.requests, 7U);
  EXPECT_EQ(view.totals.cached(), 123U);
  EXPECT_EQ(view.totals.sum(), 163U);
  EXPECT_EQ(view.again_tokens, 8U);
  EXPECT_EQ(view.saved_s, 12.5);
  EXPECT_EQ(view.saved_ever_s, 90);
  ASSERT_THAT(view.tiers, SizeIs(4));
  EXPECT_EQ(view.tiers[0].name, "memory");
  EXPECT_EQ(view.tiers[0].budget, 4'096U);
  EXPECT_EQ(view.tiers[1].budget, 100U);
  EXPECT_EQ(view.tiers[2].budget, std::nullopt);
  EXPECT_EQ(view.tiers[3].used, 9U);
  EXPECT_THAT(view.problems, ElementsAre(HasSubstr("Make room")));
}

TEST(View, ReadsTheProblemsThatTheServerNames) {
  View view;
  ASSERT_TRUE(
      read_cache(R"({"tiers": [{"name": "disk", "stopped": true}], "problems": ["An audit failed.", 7]})", view));
  EXPECT_THAT(view.problems, ElementsAre(HasSubstr("Make room"), "An audit failed."));
  ASSERT_TRUE(read_cache(R"({"problems": []})", view));
  EXPECT_THAT(view.problems, IsEmpty());
}

TEST(View, ReadsWhatRuns) {
  View view;
  ASSERT_TRUE(read_cache(kCache, view));
  ASSERT_THAT(view.running, SizeIs(2));
  EXPECT_EQ(view.running[0].number, 5U);
  EXPECT_EQ(view.running[0].tokens.sum(), 50U);
  EXPECT_EQ(view.running[0].ttft_ms, 85);
  EXPECT_EQ(view.running[0].tokens_per_s, 20) << "8 gaps in 0.4 s";
  EXPECT_EQ(view.running[0].state, "decoding");
  EXPECT_EQ(view.running[0].waits_for, "");
  EXPECT_EQ(view.running[1].waits_for, "place");
  EXPECT_EQ(view.running[1].ttft_ms, std::nullopt);
  EXPECT_EQ(view.running[1].tokens_per_s, std::nullopt);
}

TEST(View, ReadsWhyARequestReusedNoMore) {
  View view;
  ASSERT_TRUE(read_cache(kCache, view));
  ASSERT_THAT(view.past, SizeIs(2));
  EXPECT_EQ(view.past[0].client, "chat");
  EXPECT_FALSE(view.past[0].cause);
  ASSERT_TRUE(read_explained(R"({"requests": [
    {"id": "a", "client": null, "cache_break": {"kind": "volatile-text", "at": 8, "lost_tokens": 2, "lost_ms": 4}},
    {"id": "of another page", "client": "x"}, {"id": "b", "client": "opencode", "cache_break": null}]})",
                             view));
  ASSERT_TRUE(view.past[0].cause);
  EXPECT_EQ(view.past[0].client, "chat");
  EXPECT_EQ(view.past[0].cause->kind, "volatile-text");
  EXPECT_EQ(view.past[0].cause->at_token, 8U);
  EXPECT_EQ(view.past[0].cause->lost_s, 0.004);
  EXPECT_EQ(view.past[1].client, "opencode");
  ASSERT_TRUE(view.past[1].cause);
  EXPECT_EQ(view.past[1].cause->kind, "none");
}

TEST(View, ReadsPrefixesAndTenants) {
  View view;
  ASSERT_TRUE(read_cache(R"({
    "hottest": [{"id": "0123456789abcdef", "begin": 100, "end": 900, "hits": 7, "ram_bytes": 5, "disk_bytes": 6,
                 "last_use": 99.5, "pinned": true}, {}],
    "tenants": [{"number": 3, "own": true, "salted": false, "requests": 9, "prompt_tokens": 100, "cached_tokens": 60,
                 "prefilled_tokens": 40, "ram_bytes": 1, "disk_bytes": 2, "last": 12}, {"number": 1, "salted": true}]})",
                         view));
  ASSERT_THAT(view.hottest, SizeIs(2));
  EXPECT_EQ(view.hottest[0].id, "0123456789abcdef");
  EXPECT_EQ(view.hottest[0].tokens, 900U) << "up to its end";
  EXPECT_EQ(view.hottest[0].uses, 7U);
  EXPECT_EQ(view.hottest[0].ram_bytes + view.hottest[0].disk_bytes, 11U);
  EXPECT_EQ(view.hottest[0].last_use_s, 99.5);
  EXPECT_TRUE(view.hottest[0].pinned);
  EXPECT_FALSE(view.hottest[1].pinned);
  ASSERT_THAT(view.tenants, SizeIs(2));
  EXPECT_EQ(view.tenants[0].number, 3U);
  EXPECT_TRUE(view.tenants[0].own && !view.tenants[0].salted && view.tenants[1].salted);
  EXPECT_EQ(view.tenants[0].cached_tokens, 60U);
  EXPECT_EQ(view.tenants[0].last_s, 12);
}

TEST(View, ReadsTheTextsThatCostMost) {
  View view;
  ASSERT_TRUE(read_offenders(R"({"offenders": [
    {"client": "codex", "kind": "volatile-text", "what": "date", "place": "system", "line": null, "times": 4,
     "requests": 5, "lost_tokens": 600, "lost_ms": 1500, "last": 77, "advice": "Put it last."}, 3]})",
                             view));
  ASSERT_THAT(view.offenders, SizeIs(2));
  const Offender& first = view.offenders[0];
  EXPECT_EQ(first.client + first.kind + first.what + first.place + first.line, "codexvolatile-textdatesystem");
  EXPECT_EQ(first.times, 4U);
  EXPECT_EQ(first.requests, 5U);
  EXPECT_EQ(first.lost_tokens, 600U);
  EXPECT_EQ(first.lost_s, 1.5);
  EXPECT_EQ(first.last_s, 77);
  for (const char* body : {"", "[]", R"({"offenders": 1})"}) EXPECT_FALSE(read_offenders(body, view)) << body;
  EXPECT_THAT(view.offenders, SizeIs(2)) << "a bad reply changes nothing";
}

TEST(View, TakesWhateverAServerSays) {
  View view;
  ASSERT_TRUE(read_cache(kCache, view));
  for (const char* body : {"", "{", "<html>", "[]", "3", "null"}) {
    EXPECT_FALSE(read_cache(body, view)) << body;
    EXPECT_EQ(view.model, "small.gguf") << "a bad reply changes nothing";
  }
  for (const char* body : {"", "[]", R"({"requests": 1})"}) EXPECT_FALSE(read_explained(body, view)) << body;
  EXPECT_TRUE(read_explained(R"({"requests": [1, null, {"id": 7}, {"id": "a", "cache_break": 3}]})", view));
  // Members of another kind than expected are as if they were missing.
  ASSERT_TRUE(
      read_cache(R"({"model": 7, "prompt_tokens": [], "tiers": {"a": 1}, "requests": {"waiting": -3}, "now": "late",
                             "running": [1, null, {"task": 1e300, "predicted_tokens": "many"}]})",
                 view));
  EXPECT_EQ(view.model, "");
  EXPECT_EQ(view.waiting, 0U);
  EXPECT_EQ(view.uptime_s, std::nullopt);
  EXPECT_EQ(view.again_tokens, 0U);
  EXPECT_THAT(view.tiers, IsEmpty());
  ASSERT_THAT(view.running, SizeIs(3));
  EXPECT_EQ(view.running[2].number, 0U);
}

TEST(View, ReadsNoMoreThanAFrameCanShow) {
  std::string body = R"({"running": [)";
  for (int i = 0; i < 3'000; ++i) body += std::string(i == 0 ? "" : ",") + R"({"task": 1})";
  View view;
  ASSERT_TRUE(read_cache(body + "]}", view));
  EXPECT_THAT(view.running, SizeIs(1'000));
}

}  // namespace
}  // namespace kvkeep::top
