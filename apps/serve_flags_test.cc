#include "serve_flags.h"

#include <gtest/gtest.h>

#include <set>

namespace kvkeep::cli {
namespace {

ServeOptions served(std::vector<std::string> arguments, const os::Environment& environment = {}) {
  arguments.insert(arguments.begin(), {"-m", "model.gguf"});
  auto parsed = parse_serve(arguments, environment);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return parsed ? parsed->options : ServeOptions{};
}

std::string refused(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"-m", "model.gguf"});
  const auto parsed = parse_serve(arguments, {});
  return parsed ? "" : parsed.error().message;
}

TEST(ServeFlags, ErrorsNameWhatCanBeSaid) {
  EXPECT_EQ(
      refused({"--kv-cache-ttl-hours", "0.001"}).find("--kv-cache-ttl-hours: '0.001' is not a whole number from 0 to "),
      0U);
  EXPECT_EQ(refused({"--kv-disk-points-share", "101"}),
            "--kv-disk-points-share: '101' is not a whole number from 0 to 100");
  EXPECT_EQ(refused({"--kv-disk-reserve-mb", "-1"}).find("--kv-disk-reserve-mb: '-1' is not a whole number from 0 to "),
            0U);
  EXPECT_EQ(refused({"-n", "-2"}), "-n (--predict): '-2' is not a whole number from 0 to 1073741824, or -1");
  EXPECT_NE(refused({"--kv-disk-space-mb", "0"}).find("--no-kv-disk"), std::string::npos);
  EXPECT_EQ(refused({"--kv-disk-space-mb", "1"}), "");
  EXPECT_NE(refused({"--cache-ram", "1t"}).find("of MiB; 1g stands for 1024"), std::string::npos);
  EXPECT_EQ(served({"--cache-ram", "2g", "--kv-disk-space-mb", "1G"}).tiers.ram_budget, mebibytes(2048));
}

TEST(ServeFlags, SuggestionsAreWhatWasMeant) {
  EXPECT_NE(refused({"--cache-dir", "/d"})
                .find("did you mean '--kv-disk-dir'? Try: kvkeep serve -m model.gguf "
                      "--kv-disk-dir /d"),
            std::string::npos)
      << refused({"--cache-dir", "/d"});
  EXPECT_NE(refused({"-ctk", "q8"}).find("did you mean 'q8_0'?"), std::string::npos) << refused({"-ctk", "q8"});
}

TEST(ServeFlags, AHostIsNoUrl) {
  for (const auto& [host, advice] :
       std::vector<std::pair<std::string, std::string>>{{"http://0.0.0.0:8080", "write --host 0.0.0.0 --port 8080"},
                                                        {"https://[::1]:80/v1", "write --host [::1] --port 80"},
                                                        {"http://localhost", "write --host localhost"},
                                                        {"127.0.0.1:9000", "write --host 127.0.0.1 --port 9000"},
                                                        {"127.0.0.1,[::1]:9000", "write --host [::1] --port 9000"}}) {
    EXPECT_TRUE(refused({"--host", host}).ends_with(advice)) << refused({"--host", host});
  }
  for (const char* host : {"::1", "[::1]", "0.0.0.0", "localhost", "/run/a:b.sock", "fe80::1%eth0"}) {
    EXPECT_EQ(refused({"--host", host}), "") << host;
  }
}

TEST(ServeFlags, FitSaysWhatFreeMemoryDecides) {
  const auto fit = [](const std::vector<std::string>& words) { return served(words).model.fit; };
  EXPECT_TRUE(fit({}).enabled);
  EXPECT_EQ(fit({}).reserve_bytes, std::vector<std::uint64_t>{1ULL << 30});
  EXPECT_EQ(fit({}).least_context, std::nullopt);
  EXPECT_FALSE(fit({"--fit", "off"}).enabled);
  EXPECT_TRUE(fit({"-fit", "on"}).enabled);
  EXPECT_EQ(fit({"-fitt", "512,0"}).reserve_bytes, (std::vector<std::uint64_t>{512ULL << 20, 0}));
  EXPECT_EQ(fit({"-fitc", "8k"}).least_context, 8192U);
  EXPECT_NE(refused({"-fitc", "63"}), "") << "no context is that short";
  EXPECT_FALSE(served({"--no-op-offload"}).model.operation_offload);
  EXPECT_EQ(served({"--numa", "isolate"}).model.numa, engine::llama::NumaPlacement::kIsolate);
}

// A typed flag wins over a variable, also if a later row reads the variable and sets the same option.
TEST(ServeFlags, TypedFlagsWinOverVariablesOfOtherRows) {
  using engine::llama::LoadMode;
  const auto mode = [](const std::vector<std::string>& words, const os::Environment& environment) {
    return served(words, environment).model.load_mode;
  };
  EXPECT_EQ(mode({"--no-mmap"}, {{"LLAMA_ARG_LOAD_MODE", "mmap"}}), LoadMode::kNone);
  EXPECT_EQ(mode({"-dio"}, {{"LLAMA_ARG_LOAD_MODE", "mmap"}, {"LLAMA_ARG_MLOCK", "1"}}), LoadMode::kDirect);
  EXPECT_EQ(mode({}, {{"LLAMA_ARG_LOAD_MODE", "mlock"}, {"LLAMA_ARG_NO_MMAP", "1"}}), LoadMode::kMlock);
}

TEST(ServeFlags, OlderSpellingsOfTheLoadMode) {
  using engine::llama::LoadMode;
  const auto mode = [](const std::vector<std::string>& words, const os::Environment& environment = {}) {
    return served(words, environment).model.load_mode;
  };
  EXPECT_EQ(mode({"--mmap"}), LoadMode::kMmap);
  EXPECT_EQ(mode({"--no-mmap"}), LoadMode::kNone);
  EXPECT_EQ(mode({"--mlock"}), LoadMode::kMmapAndMlock);
  EXPECT_EQ(mode({"--mlock", "--no-mmap"}), LoadMode::kMlock);
  EXPECT_EQ(mode({"-dio", "--no-mmap"}), LoadMode::kDirect);
  EXPECT_EQ(mode({"-ndio"}), std::nullopt);
  EXPECT_EQ(mode({"-dio", "-ndio"}), std::nullopt);
  EXPECT_EQ(mode({"--no-mmap", "--load-mode", "auto"}), std::nullopt) << "the newer spelling wins";
  EXPECT_EQ(mode({"-lm", "mmap"}, {{"LLAMA_ARG_NO_MMAP", "1"}, {"LLAMA_ARG_MLOCK", "1"}}), LoadMode::kMmap);
  EXPECT_EQ(mode({}, {{"LLAMA_ARG_MMAP", "off"}}), LoadMode::kNone);
}

TEST(ServeFlags, TokensMayBeCountedInKi) {
  EXPECT_EQ(served({"-c", "32k"}).model.n_ctx, 32768U);
  EXPECT_EQ(served({"-c", "4k", "-b", "1k", "-ub", "1K"}).model.n_batch, 1024U);
  EXPECT_EQ(refused({"-c", "4kb"}),
            "-c (--ctx-size): '4kb' is not a whole number from 0 to 1073741824, which may end in k or m; did you mean "
            "'4k'?");
}

TEST(ServeFlags, AVariableSetsTheMarkerOfFiles) {
  EXPECT_EQ(served({}).media.marker, "");
  EXPECT_EQ(served({}, {{"LLAMA_MEDIA_MARKER", "<__media__>"}}).media.marker, "<__media__>");
}

TEST(ServeFlags, TheDiskDirectoryMayComeFromTheEnvironment) {
  const os::Environment environment = {{"LLAMA_ARG_KV_DISK_DIR", "/e"}};
  EXPECT_EQ(served({}, environment).tiers.disk_directory, "/e");
  EXPECT_EQ(served({"--kv-disk-dir", "/d"}, environment).tiers.disk_directory, "/d");
  EXPECT_FALSE(served({"--no-kv-disk"}, environment).tiers.use_disk) << "no contradiction: only one was typed";
  EXPECT_TRUE(served({"--no-kv-disk"}, environment).ignored_variables.empty());
}

TEST(ServeFlags, AllRefusedFlagsOfALineAreReported) {
  EXPECT_EQ(
      refused({"--video-fps", "2", "--mlock", "--no-perf", "-c", "4096", "-hf", "a/b"}),
      "--video-fps is not supported: videos are not understood. --no-perf is not supported: every reply has "
      "times; leave it out. -hf is not supported: models are not downloaded; name a file with --model. Try: kvkeep "
      "serve -m model.gguf --mlock -c 4096");
}

TEST(ServeFlags, AModelIsRequiredExceptToListDevices) {
  EXPECT_FALSE(parse_serve({}, {}));
  EXPECT_TRUE(parse_serve({"--list-devices"}, {})->options.list_devices);
  EXPECT_EQ(parse_serve({}, {{"LLAMA_ARG_MODEL", "a.gguf"}})->options.model.path, "a.gguf");
}

TEST(ServeFlags, LlamaServersShortFormsOfSeveralLetters) {
  const ServeOptions options =
      served({"-np", "8",   "-fa", "on",  "-ngl",     "all",    "-ctk",  "q8_0",  "-ctv", "q4_0", "-tb",
              "3",   "-ub", "256", "-ot", "exps=CPU", "-ncmoe", "2",     "-dev",  "none", "-sm",  "row",
              "-ts", "3,1", "-mg", "1",   "-lm",      "mlock",  "-nkvo", "-cmoe", "-nr",  "-lv",  "4"});
  EXPECT_EQ(options.model.parallel, 8);
  EXPECT_EQ(options.model.flash_attention, true);
  EXPECT_EQ(options.model.gpu_layers, engine::llama::ModelOptions::kAllLayers);
  EXPECT_EQ(options.model.type_k, engine::llama::KvType::kQ8_0);
  EXPECT_EQ(options.model.type_v, engine::llama::KvType::kQ4_0);
  EXPECT_EQ(options.model.threads_batch, 3);
  EXPECT_EQ(options.model.n_ubatch, 256);
  EXPECT_EQ(options.model.tensor_overrides.at(0).buffer_type, "CPU");
  EXPECT_EQ(options.model.cpu_moe_layers, 2);
  EXPECT_EQ(options.model.devices, std::vector<std::string>{"none"});
  EXPECT_EQ(options.model.split_mode, engine::llama::SplitMode::kRow);
  EXPECT_EQ(options.model.tensor_split, (std::vector<float>{3, 1}));
  EXPECT_EQ(options.model.main_gpu, 1);
  EXPECT_EQ(options.model.load_mode, engine::llama::LoadMode::kMlock);
  EXPECT_FALSE(options.model.offload_kv);
  EXPECT_TRUE(options.model.cpu_moe);
  EXPECT_FALSE(options.model.repack);
  EXPECT_EQ(options.log.verbosity, 4);
}

TEST(ServeFlags, TheUbatchFollowsASmallerBatch) {
  EXPECT_EQ(served({}).model.ubatch(), 512);
  EXPECT_EQ(served({"-b", "4096"}).model.ubatch(), 512);
  EXPECT_EQ(served({"-b", "256"}).model.ubatch(), 256);
  EXPECT_EQ(served({"-b", "256", "-ub", "64"}).model.ubatch(), 64);
  EXPECT_EQ(refused({"-b", "256", "-ub", "512"}), "--ubatch-size 512 is larger than --batch-size 256");
}

TEST(ServeFlags, ModelAndAdapters) {
  const ServeOptions options = served({"-a",
                                       "a,b",
                                       "--check-tensors",
                                       "--no-host",
                                       "--override-kv",
                                       "x=int:1",
                                       "--model-hash",
                                       "full",
                                       "--chat-template-file",
                                       "t.jinja",
                                       "--jinja",
                                       "--lora",
                                       "l1,l2",
                                       "--lora-scaled",
                                       "l3:0.5",
                                       "--control-vector",
                                       "c1",
                                       "--control-vector-scaled",
                                       "c2:2",
                                       "--control-vector-layer-range",
                                       "1",
                                       "9"});
  EXPECT_EQ(options.chat.model_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(options.chat.strict_model_names);
  EXPECT_TRUE(options.model.check_tensors);
  EXPECT_TRUE(options.model.no_host);
  EXPECT_EQ(options.model.kv_overrides.at(0).key, "x");
  EXPECT_TRUE(options.model.full_model_hash);
  EXPECT_EQ(options.chat.template_file, "t.jinja");
  ASSERT_EQ(options.model.loras.size(), 3);
  EXPECT_FLOAT_EQ(options.model.loras[2].scale, 0.5F);
  EXPECT_EQ(options.model.control_vectors.size(), 2);
  EXPECT_EQ(options.model.control_vector_layers, std::pair(1, 9));
}

TEST(ServeFlags, ContextRopeAndSampling) {
  const ServeOptions options = served({"-c",
                                       "4096",
                                       "-b",
                                       "1024",
                                       "-t",
                                       "2",
                                       "-n",
                                       "100",
                                       "--swa-full",
                                       "--no-warmup",
                                       "--rope-scaling",
                                       "yarn",
                                       "--rope-scale",
                                       "4",
                                       "--rope-freq-base",
                                       "1e6",
                                       "--yarn-orig-ctx",
                                       "2048",
                                       "--yarn-ext-factor",
                                       "1",
                                       "--yarn-attn-factor",
                                       "2",
                                       "--yarn-beta-slow",
                                       "3",
                                       "--yarn-beta-fast",
                                       "4",
                                       "-s",
                                       "7",
                                       "--temp",
                                       "0",
                                       "--top-k",
                                       "1",
                                       "--top-p",
                                       "0.5",
                                       "--min-p",
                                       "0.1",
                                       "--repeat-penalty",
                                       "1.1",
                                       "--repeat-last-n",
                                       "-1",
                                       "--presence-penalty",
                                       "0.2",
                                       "--frequency-penalty",
                                       "-0.3",
                                       "--ignore-eos"});
  EXPECT_EQ(options.model.n_ctx, 4096);
  EXPECT_EQ(options.model.n_batch, 1024);
  EXPECT_EQ(options.model.threads, 2);
  EXPECT_EQ(options.defaults.max_tokens, 100);
  EXPECT_TRUE(options.model.swa_full);
  EXPECT_FALSE(options.model.warmup);
  const engine::llama::ModelOptions& model = options.model;
  EXPECT_EQ(model.rope_scaling, engine::llama::RopeScaling::kYarn);
  EXPECT_EQ(model.rope_frequency_scale, 0.25F);
  EXPECT_EQ(model.rope_frequency_base, 1e6F);
  EXPECT_EQ(model.yarn_original_context, 2048U);
  EXPECT_EQ(*model.yarn_extrapolation + *model.yarn_attention + *model.yarn_beta_slow + *model.yarn_beta_fast, 10.0F);
  EXPECT_EQ(options.defaults.sampling.seed, 7U);
  EXPECT_EQ(options.defaults.sampling.temperature, 0.0F);
  EXPECT_EQ(options.defaults.sampling.top_k, 1);
  EXPECT_FLOAT_EQ(options.defaults.sampling.top_p, 0.5F);
  EXPECT_FLOAT_EQ(options.defaults.sampling.min_p, 0.1F);
  EXPECT_FLOAT_EQ(options.defaults.sampling.repeat_penalty, 1.1F);
  EXPECT_EQ(options.defaults.sampling.repeat_last_n, -1);
  EXPECT_FLOAT_EQ(options.defaults.sampling.presence_penalty, 0.2F);
  EXPECT_FLOAT_EQ(options.defaults.sampling.frequency_penalty, -0.3F);
  EXPECT_TRUE(options.defaults.sampling.ignore_eos);
}

TEST(ServeFlags, CacheServerAndLog) {
  const ServeOptions options = served({"--cache-ram",
                                       "100",
                                       "--kv-disk-dir",
                                       "/d",
                                       "--kv-disk-space-mb",
                                       "200",
                                       "--kv-disk-reserve-mb",
                                       "300",
                                       "--kv-cache-min-tokens",
                                       "64",
                                       "--kv-cache-audit-minutes",
                                       "0.5",
                                       "--match",
                                       "token",
                                       "--restore",
                                       "always",
                                       "--no-cache-prompt",
                                       "--host",
                                       "::1,127.0.0.2",
                                       "--host",
                                       "/run/a.sock",
                                       "--port",
                                       "0",
                                       "--api-key",
                                       "k1,k2",
                                       "--api-key-file",
                                       "keys",
                                       "--allowed-hosts",
                                       "h",
                                       "--allowed-origins",
                                       "http://o",
                                       "--threads-http",
                                       "9",
                                       "--timeout",
                                       "5",
                                       "--max-body-mb",
                                       "2",
                                       "--log-file",
                                       "f",
                                       "-v",
                                       "--log-disable"});
  EXPECT_EQ(options.tiers.ram_budget, mebibytes(100));
  EXPECT_EQ(options.tiers.disk_directory, "/d");
  EXPECT_EQ(options.audit_minutes, 0.5);
  EXPECT_EQ(options.tiers.disk_budget, mebibytes(200));
  EXPECT_EQ(options.tiers.disk_reserve, mebibytes(300));
  EXPECT_EQ(options.cache.min_disk_tokens, 64U);
  EXPECT_FALSE(options.match_text);
  EXPECT_TRUE(served({}).match_text);
  EXPECT_TRUE(served({"--match", "text"}).match_text);
  EXPECT_EQ(options.restore, policy::RestoreMode::kAlways);
  EXPECT_FALSE(options.defaults.cache_prompt);
  EXPECT_EQ(options.http.hosts, (std::vector<std::string>{"::1", "127.0.0.2", "/run/a.sock"}));
  EXPECT_EQ(options.http.port, 0);
  EXPECT_EQ(options.http.api_keys, (std::vector<std::string>{"k1", "k2"}));
  EXPECT_EQ(options.api_key_file, "keys");
  EXPECT_EQ(options.http.allowed_hosts, std::vector<std::string>{"h"});
  EXPECT_EQ(options.http.allowed_origins, std::vector<std::string>{"http://o"});
  EXPECT_EQ(options.http_threads, 9);
  EXPECT_EQ(options.http.limits.body_ms, 5'000);
  EXPECT_EQ(options.http.limits.write_ms, 5'000);
  EXPECT_EQ(options.http.limits.header_ms, 5'000);
  EXPECT_EQ(options.http.body_bytes_max, 2U << 20);
  EXPECT_EQ(options.log.file, "f");
  EXPECT_EQ(options.log.verbosity, 5);
  EXPECT_TRUE(options.log.disabled);
  EXPECT_FALSE(served({"--no-kv-disk"}).tiers.use_disk);
}

TEST(ServeFlags, FlagsLimitTheUseOfTheDisk) {
  const ServeOptions options =
      served({"--kv-disk-write-mb-per-day", "400", "--kv-cache-ttl-hours", "48", "--kv-disk-points-share", "50"});
  EXPECT_EQ(options.tiers.disk_written_per_day, mebibytes(400));
  EXPECT_EQ(options.cache.time_to_live_ns, 48 * 3600LL * 1'000'000'000);
  EXPECT_EQ(options.cache.disk_points_share, 50U);
  EXPECT_EQ(served({}).tiers.disk_written_per_day, ByteCount{0});
  EXPECT_EQ(served({}).cache.time_to_live_ns, 0);
  EXPECT_EQ(served({}).cache.disk_points_share, 100U);
}

TEST(ServeFlags, MinusOneMeansTheDefaultWhereLlamaServerSaysSo) {
  const ServeOptions options = served({"-np", "-1", "-n", "-1", "-t", "-1", "-s", "-1", "--threads-http", "-1"});
  EXPECT_EQ(options.model.parallel, engine::llama::ModelOptions{}.parallel);
  EXPECT_EQ(options.defaults.max_tokens, std::nullopt);
  EXPECT_EQ(options.model.threads, std::nullopt);
  EXPECT_FALSE(options.defaults.sampling.seed.has_value());
  EXPECT_EQ(options.http_threads, std::nullopt);
}

TEST(ServeFlags, AutomaticValuesAreLeftOpen) {
  const ServeOptions options = served({"-c",
                                       "0",
                                       "-t",
                                       "0",
                                       "-tb",
                                       "0",
                                       "-fa",
                                       "auto",
                                       "-ngl",
                                       "auto",
                                       "-lm",
                                       "auto",
                                       "--yarn-orig-ctx",
                                       "0",
                                       "--yarn-ext-factor",
                                       "-1",
                                       "--yarn-attn-factor",
                                       "-0.5",
                                       "-rea",
                                       "auto"});
  const engine::llama::ModelOptions& model = options.model;
  EXPECT_FALSE(model.n_ctx || model.threads || model.threads_batch || model.flash_attention || model.gpu_layers);
  EXPECT_FALSE(model.load_mode || model.yarn_original_context || model.yarn_extrapolation || model.yarn_attention);
  EXPECT_FALSE(options.chat.thinks);
}

TEST(ServeFlags, FlashAttentionIsSpelledAsLlamaServerTakesIt) {
  EXPECT_EQ(served({"-fa", "1"}).model.flash_attention, true);
  EXPECT_EQ(served({"-fa", "false"}).model.flash_attention, false);
  EXPECT_EQ(served({}, {{"LLAMA_ARG_FLASH_ATTN", "true"}}).model.flash_attention, true);
  EXPECT_EQ(served({}, {{"LLAMA_ARG_FLASH_ATTN", "0"}}).model.flash_attention, false);
  EXPECT_EQ(served({"-fa", "on"}, {{"LLAMA_ARG_FLASH_ATTN", "0"}}).model.flash_attention, true);
}

TEST(ServeFlags, ServersOfOtherMachinesHaveAddresses) {
  const auto servers = [](const std::string& text) -> Result<std::vector<std::string>> {
    TRY_ASSIGN(const ParsedServe parsed, parse_serve({"-m", "m", "--rpc", text}, {}));
    return parsed.options.model.rpc_servers;
  };
  EXPECT_EQ(*servers("10.0.0.2:50052,gpu:1"), (std::vector<std::string>{"10.0.0.2:50052", "gpu:1"}));
  for (const char* wrong : {"gpu", ":1", "gpu:", "gpu:0", "gpu:65536", "gpu:x", "::1:50052"}) {
    EXPECT_FALSE(servers(wrong)) << wrong;
  }
  std::string many = "a:1";
  for (int i = 0; i < 16; ++i) many += ",a:1";
  EXPECT_FALSE(servers(many));
}

TEST(ServeFlags, AnAddressMayBeInBracketsAsInUrls) {
  const auto parsed = parse_serve({"-m", "m", "--host", "[::1],127.0.0.1"}, {});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->options.http.hosts, (std::vector<std::string>{"::1", "127.0.0.1"}));
}

TEST(ServeFlags, ContradictionsAreErrors) {
  EXPECT_NE(refused({"-b", "100", "-ub", "200"}), "");
  EXPECT_NE(refused({"-ctv", "q8_0", "-fa", "off"}), "");
  EXPECT_NE(refused({"--no-kv-disk", "--kv-disk-dir", "/d"}), "");
  EXPECT_NE(refused({"--control-vector-layer-range", "1", "2"}), "");
}

TEST(ServeFlags, OutOfRangeValuesAreErrors) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--port", "65536"},    {"-np", "0"},         {"--top-p", "1.5"},    {"--temp", "-1"},
      {"--cache-ram", "-1"},  {"-c", "-5"},         {"-lv", "6"},          {"--timeout", "0"},
      {"--max-body-mb", "0"}, {"-ub", "0"},         {"-ctk", "q2_k"},      {"-fa", "maybe"},
      {"--restore", "never"}, {"-s", "4294967296"}, {"--rope-scale", "0"}, {"--match", "ids"}};
  for (const auto& arguments : wrong) EXPECT_NE(refused(arguments), "") << arguments[0] << " " << arguments[1];
}

TEST(ServeFlags, FlagsThatWouldChangeResultsAreRefusedByName) {
  for (const char* name : {"--video-fps", "--draft", "-md"}) {
    EXPECT_NE(refused({name, "x"}).find("is not supported: "), std::string::npos) << name;
  }
}

// Among them are ds4-server's cache flags. Each has a reason, and none is suggested to be a misspelling.
TEST(ServeFlags, FlagsOfTheOtherCacheAreRefusedWithAReason) {
  for (const char* name : {"--kv-cache-reject-different-quant", "--tool-memory-max-ids"}) {
    const std::string reason = refused({name});
    EXPECT_TRUE(reason.starts_with(std::string(name) + " is not supported: ")) << reason;
    EXPECT_EQ(reason.find('\n'), std::string::npos);
  }
  EXPECT_TRUE(refused({"--disable-exact-dsml-tool-replay"})
                  .starts_with("--disable-exact-dsml-tool-replay is --replay canonical here. Try: "));
}

TEST(ServeFlags, ATraceHoldsPromptsOnlyIfAskedTo) {
  const auto traced = parse_serve({"-m", "m", "--trace", "t.jsonl"}, {});
  ASSERT_TRUE(traced.ok());
  EXPECT_EQ(traced->options.log.trace_file, "t.jsonl");
  EXPECT_FALSE(traced->options.log.trace_prompts);
  EXPECT_EQ(refused({"-m", "m", "--trace-prompts"}), "--trace-prompts needs --trace FILE");
  EXPECT_EQ(refused({"-m", "m", "--trace", "f", "--trace-media"}), "--trace-media needs --trace-prompts");
}

TEST(ServeFlags, TurnsAreReplayedAndPrefilledAheadUnlessTold) {
  EXPECT_EQ(served({}).chat.replay, Replay::kExact);
  EXPECT_EQ(served({"--replay", "canonical"}).chat.replay, Replay::kCanonical);
  EXPECT_EQ(served({"--replay", "off"}).chat.replay, Replay::kOff);
  EXPECT_EQ(refused({"--replay", "on"}), "--replay: 'on' is not one of exact, canonical, off");
  EXPECT_TRUE(served({}).chat.prefill_ahead);
  EXPECT_FALSE(served({"--no-prefill-ahead"}).chat.prefill_ahead);
}

TEST(ServeFlags, RerankingIsAKindOfEmbedding) {
  using engine::Pooling;
  EXPECT_FALSE(served({}).embeddings.enabled);
  EXPECT_TRUE(served({"--embedding"}).embeddings.enabled);
  EXPECT_EQ(served({"--embeddings", "--pooling", "last"}).embeddings.pooling, Pooling::kLast);
  EXPECT_EQ(served({"--embeddings", "--embd-normalize", "-1"}).embeddings.normalize, -1);
  const ServeOptions ranks = served({"--reranking"});
  EXPECT_TRUE(ranks.embeddings.enabled);
  EXPECT_EQ(ranks.embeddings.pooling, Pooling::kRank);
  EXPECT_EQ(refused({"--rerank", "--pooling", "mean"}),
            "--rerank and --pooling contradict each other: leave out --pooling");
  EXPECT_EQ(refused({"--pooling", "mean"}), "--pooling needs --embeddings");
  EXPECT_EQ(refused({"--embd-normalize", "2"}), "--embd-normalize needs --embeddings");
}

TEST(ServeFlags, APoolingForOtherServersIsNoMistake) {
  EXPECT_TRUE(parse_serve({"-m", "m.gguf"}, {{"LLAMA_ARG_POOLING", "mean"}}).ok());
  const auto embeds = parse_serve({"-m", "m.gguf"}, {{"LLAMA_ARG_POOLING", "mean"}, {"LLAMA_ARG_EMBEDDINGS", "1"}});
  EXPECT_EQ(embeds.value().options.embeddings.pooling, engine::Pooling::kMean);
}

TEST(ServeFlags, StabilizersHaveNames) {
  EXPECT_TRUE(served({}).stabilizers.billing_line);
  EXPECT_FALSE(served({"--stabilize", "none"}).stabilizers.billing_line);
  EXPECT_TRUE(served({"--stabilize", "none", "--stabilize", "billing-line"}).stabilizers.billing_line);
  EXPECT_NE(refused({"--stabilize", "date"}).find("billing-line"), std::string::npos);
}

TEST(ServeFlags, PointsArePlacedByTheFlagsOfBothServers) {
  const policy::CutOptions cuts =
      served({"--no-kv-cache-anchor-user", "--kv-cache-cold-max-tokens", "30000",
              "--kv-cache-continued-interval-tokens", "5000", "--kv-cache-boundary-trim-tokens", "16",
              "--kv-cache-boundary-align-tokens", "256", "-ctxcp", "8", "--checkpoint-min-step", "512"})
          .cuts;
  EXPECT_FALSE(cuts.anchor_user);
  EXPECT_EQ(cuts.cold_max_tokens, 30'000U);
  EXPECT_EQ(cuts.continued_interval_tokens, 5'000U);
  EXPECT_EQ(cuts.boundary_trim_tokens, 16U);
  EXPECT_EQ(cuts.boundary_align_tokens, 256U);
  EXPECT_EQ(cuts.most_points, 8U);
  EXPECT_EQ(cuts.least_step_tokens, 512U);
}

TEST(ServeFlags, TheSharedTierIsDescribedWhole) {
  EXPECT_EQ(served({}).shared, SharedTierOptions{});
  const SharedTierOptions shared =
      served({"--share", "dir:/mnt/nas/kvkeep", "--share-mode", "read", "--share-key-file", "/k", "--share-encrypt",
              "--share-ttl-hours", "24", "--share-across-devices"})
          .shared;
  EXPECT_EQ(shared, (SharedTierOptions{.url = "dir:/mnt/nas/kvkeep",
                                       .mode = share::ShareMode::kRead,
                                       .key_file = "/k",
                                       .encrypt = true,
                                       .ttl_hours = 24,
                                       .across_devices = true}));
  EXPECT_NE(refused({"--share", "cache.lan:6379"}).find("--share: "), std::string::npos);
  EXPECT_EQ(refused({"--share-mode", "read"}), "the --share-... flags need --share URL");
  EXPECT_EQ(refused({"--share", "dir:/x", "--share-encrypt"}), "--share-encrypt needs --share-key-file FILE");
}

TEST(ServeFlags, NoNameStandsForTwoThings) {
  ServeOptions options;
  std::multiset<std::string> names;
  const FlagSet known = serve_flags(options);
  for (const KnownFlag& flag : known.flags()) {
    names.insert(flag.name);
    names.insert(flag.aliases.begin(), flag.aliases.end());
    names.insert(flag.off_names.begin(), flag.off_names.end());
  }
  for (const RefusedFlag& flag : refused_serve_flags()) names.insert(flag.names.begin(), flag.names.end());
  for (const std::string& name : names) EXPECT_EQ(names.count(name), 1) << name;
}

}  // namespace
}  // namespace kvkeep::cli
