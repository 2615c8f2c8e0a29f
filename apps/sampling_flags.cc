// Flags of `serve` about sampling, for requests that do not say. The ranges are those of requests.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "engine/sampler_order.h"
#include "engine/sampling_settings.h"
#include "flag_values.h"
#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

using engine::SamplerOrder;
using engine::SamplingParams;

template <typename Number, std::size_t kCount>
Assign setting_into(ServeOptions& options, const std::array<engine::SamplingSetting<Number>, kCount>& table,
                    std::string_view name, std::optional<double> least = {}) {
  const auto* const setting = std::ranges::find(table, name, &engine::SamplingSetting<Number>::name);
  KVKEEP_ASSERT(setting != table.end(), "a flag's setting is in the table");
  Number& target = options.defaults.sampling.*(setting->member);
  const auto lowest = static_cast<Number>(least.value_or(setting->least));
  const Assign number = number_into(target, lowest, static_cast<Number>(setting->most));
  const auto set = [&options, number, name](const std::string& text) -> Status {
    TRY(number.set(text));
    options.chosen_sampling.emplace(name);
    return {};
  };
  return {set, number.default_text + (setting->model_key.empty() ? "" : ", or the model file's")};
}

Assign real_into(ServeOptions& options, std::string_view name, std::optional<double> least = {}) {
  return setting_into(options, engine::kRealSettings, name, least);
}

Assign whole_into(ServeOptions& options, std::string_view name) {
  return setting_into(options, engine::kWholeSettings, name);
}

Assign order_into(ServeOptions& options, Result<SamplerOrder> (*parse)(std::string_view)) {
  return [&options, parse](const std::string& text) -> Status {
    TRY_ASSIGN(options.defaults.sampling.samplers, parse(text));
    const bool is_first = options.chosen_sampling.emplace("samplers").second;
    return is_first ? Status() : invalid("--samplers and --sampler-seq both give an order: leave one out");
  };
}

// Returns the character of the escape sequence after a backslash, and shortens `rest` by it; nullopt if it is none.
std::optional<char> escaped(std::string_view& rest) {
  constexpr std::pair<char, char> kEscapes[] = {{'n', '\n'}, {'r', '\r'},  {'t', '\t'},
                                                {'"', '"'},  {'\'', '\''}, {'\\', '\\'}};
  if (rest.empty()) return std::nullopt;
  if (rest.size() >= 3 && rest.front() == 'x') {
    unsigned code = 0;
    const auto [end, failure] = std::from_chars(rest.data() + 1, rest.data() + 3, code, 16);
    if (failure != std::errc() || end != rest.data() + 3) return std::nullopt;
    rest.remove_prefix(3);
    return static_cast<char>(code);
  }
  const auto* const found = std::ranges::find(kEscapes, rest.front(), &std::pair<char, char>::first);
  if (found == std::end(kEscapes)) return std::nullopt;
  rest.remove_prefix(1);
  return found->second;
}

// "\n" and the like mean what they mean in llama-server, since shells make it hard to type a new line.
std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    const std::optional<char> meant = c == '\\' ? escaped(text) : std::nullopt;
    out += meant.value_or(c);
  }
  return out;
}

// The first one replaces the defaults.
Assign breaker_into(std::vector<std::string>& breakers) {
  const auto set = [&breakers, first = true](const std::string& text) mutable -> Status {
    if (std::exchange(first, false) || text == "none") breakers.clear();
    if (text != "none") breakers.push_back(unescaped(text));
    return engine::check_dry_breakers(breakers);
  };
  return {set, R"(\n, :, " and *)"};
}

std::vector<Flag> choice_flags(ServeOptions& options) {
  return {
      {.spelling = "--temperature, --temp N",
       .environment = "LLAMA_ARG_TEMPERATURE",
       .effect = "Temperature; 0 always takes the likeliest token.",
       .assign = real_into(options, "temperature", 0)},
      {.spelling = "--dynatemp-range N",
       .effect = "Let the temperature follow the entropy, by up to N to either side; 0 is off.",
       .assign = real_into(options, "dynatemp_range")},
      {.spelling = "--dynatemp-exp N",
       .effect = "How entropy becomes temperature under --dynatemp-range.",
       .assign = real_into(options, "dynatemp_exponent")},
      {.spelling = "--top-k N",
       .environment = "LLAMA_ARG_TOP_K",
       .effect = "Choose among the K likeliest tokens; 0 is off.",
       .assign = whole_into(options, "top_k")},
      {.spelling = "--top-p N",
       .environment = "LLAMA_ARG_TOP_P",
       .effect = "Choose among the likeliest tokens that make up this probability; 1 is off.",
       .assign = real_into(options, "top_p")},
      {.spelling = "--min-p N",
       .environment = "LLAMA_ARG_MIN_P",
       .effect = "Drop tokens less likely than this share of the likeliest; 0 is off.",
       .assign = real_into(options, "min_p")},
      {.spelling = "--top-nsigma, --top-n-sigma N",
       .effect = "Drop tokens whose logit is more than N standard deviations below the largest; -1 is off.",
       .assign = real_into(options, "top_n_sigma")},
      {.spelling = "--typical, --typical-p N",
       .effect = "Choose among the tokens of typical information that make up this probability; 1 is off.",
       .assign = real_into(options, "typical_p")},
      {.spelling = "--xtc-probability N",
       .effect = "How often to drop all but the last of the tokens above --xtc-threshold; 0 is off.",
       .assign = real_into(options, "xtc_probability")},
      {.spelling = "--xtc-threshold N",
       .effect = "Probability above which --xtc-probability may drop tokens; above 0.5 is off.",
       .assign = real_into(options, "xtc_threshold")},
  };
}

std::vector<Flag> penalty_flags(ServeOptions& options) {
  return {
      {.spelling = "--repeat-penalty N",
       .environment = "LLAMA_ARG_REPEAT_PENALTY",
       .effect = "Make repeated tokens less likely; 1 is off.",
       .assign = real_into(options, "repeat_penalty")},
      {.spelling = "--repeat-last-n N",
       .effect = "How many of the last tokens the penalties count; 0 is off, -1 the whole context.",
       .assign = whole_into(options, "repeat_last_n")},
      {.spelling = "--presence-penalty N",
       .environment = "LLAMA_ARG_PRESENCE_PENALTY",
       .effect = "Subtracted from the logit of every token that occurred.",
       .assign = real_into(options, "presence_penalty")},
      {.spelling = "--frequency-penalty N",
       .environment = "LLAMA_ARG_FREQUENCY_PENALTY",
       .effect = "Subtracted from a token's logit for each time that it occurred.",
       .assign = real_into(options, "frequency_penalty")},
      {.spelling = "--dry-multiplier N",
       .effect = "DRY: penalty of tokens that would make a sequence repeat; 0 is off.",
       .assign = real_into(options, "dry_multiplier")},
      {.spelling = "--dry-base N",
       .effect = "DRY: factor of the penalty for each further token that repeats; below 1: 1.75.",
       .assign = real_into(options, "dry_base")},
      {.spelling = "--dry-allowed-length N",
       .effect = "DRY: sequences up to this length may repeat.",
       .assign = whole_into(options, "dry_allowed_length")},
      {.spelling = "--dry-penalty-last-n N",
       .effect = "DRY: how many of the last tokens are searched; 0 is off, -1 the whole context.",
       .assign = whole_into(options, "dry_penalty_last_n")},
      {.spelling = "--dry-sequence-breaker TEXT",
       .effect = "DRY: a text over which no sequence extends, up to 40 bytes and 16 times; the first one replaces the "
                 "defaults, none stands for no text, and \\n for a new line.",
       .assign = breaker_into(options.defaults.sampling.dry_breakers)},
  };
}

constexpr std::size_t kBiasesMax = 1'024;

// "15043+1", "15043-1.5", "2-inf": a token, and what is added to its logit. A token that is named again adds to its
// bias, as in requests.
Assign bias_into(std::vector<std::pair<TokenId, float>>& biases) {
  const auto set = [&biases](const std::string& text) -> Status {
    constexpr float kLargest = 1e6F;  // far beyond any logit, and safe in a float
    const auto sign = text.find_first_of("+-");
    const auto wrong = [&] { return invalid(fmt::format("'{}' is not ID+BIAS or ID-BIAS", text)); };
    if (sign == std::string::npos) return wrong();
    const auto id = parse_number<TokenId>(text.substr(0, sign), 0, std::numeric_limits<TokenId>::max());
    const std::string size = text.substr(sign + 1);
    const auto bias =
        size == "inf" ? Result<float>(std::numeric_limits<float>::infinity()) : parse_number(size, 0.0F, kLargest);
    if (!id || !bias) return wrong();
    if (biases.size() == kBiasesMax) return invalid(fmt::format("more than {} biases", kBiasesMax));
    const float added = text[sign] == '-' ? -*bias : *bias;
    const auto known = std::ranges::find(biases, *id, &std::pair<TokenId, float>::first);
    if (known == biases.end()) {
      biases.emplace_back(*id, added);
    } else {
      known->second += added;
    }
    return {};
  };
  return {set, "none"};
}

std::vector<Flag> form_flags(ServeOptions& options) {
  ReplyFormOptions& form = options.reply_form;
  return {
      {.spelling = "-l, --logit-bias ID+BIAS",
       .effect = "Add BIAS to a token's logit, or with - subtract it; inf forces or forbids. May be repeated; a "
                 "request's own biases replace all of these.",
       .assign = bias_into(options.defaults.sampling.logit_bias)},
      {.spelling = "--grammar GBNF",
       .effect = "Hold replies to this grammar, where a request demands no form and has no tools.",
       .assign = text_into(form.grammar)},
      {.spelling = "--grammar-file FILE",
       .effect = "The same with a grammar from a file.",
       .assign = text_into(form.grammar_file)},
      {.spelling = "-j, --json-schema SCHEMA",
       .effect = "The same with a JSON schema.",
       .assign = text_into(form.schema)},
      {.spelling = "-jf, --json-schema-file FILE",
       .effect = "The same with a JSON schema from a file.",
       .assign = text_into(form.schema_file)},
  };
}

std::vector<Flag> draw_flags(ServeOptions& options) {
  return {
      {.spelling = "--mirostat N",
       .effect = "1 or 2: draw by that version of Mirostat, after the temperature and no other sampler; 0 is off.",
       .assign = whole_into(options, "mirostat")},
      {.spelling = "--mirostat-lr N",
       .effect = "How fast Mirostat corrects itself (eta).",
       .assign = real_into(options, "mirostat_eta")},
      {.spelling = "--mirostat-ent N",
       .effect = "Surprise that Mirostat aims at, in bits (tau).",
       .assign = real_into(options, "mirostat_tau")},
      {.spelling = "--adaptive-target N",
       .effect =
           "Probability of the tokens that the sampler adaptive_p prefers, if --samplers names it; below 0 is off.",
       .assign = real_into(options, "adaptive_target")},
      {.spelling = "--adaptive-decay N",
       .effect = "How long adaptive_p remembers, up to 0.99.",
       .assign = real_into(options, "adaptive_decay")},
      {.spelling = "--ignore-eos",
       .effect = "Continue when the model would end its reply.",
       .assign = switch_into(options.defaults.sampling.ignore_eos)},
  };
}

}  // namespace

std::vector<Flag> sampling_flags(ServeOptions& options) {
  SamplingParams& sampling = options.defaults.sampling;
  const std::string order = names_of(sampling.samplers) + ", or the model file's";
  std::vector<Flag> flags = {
      {.group = "Sampling, if the request does not set it",
       .spelling = "-s, --seed N",
       .default_text = "-1, another each time",
       .effect = "Seed of the random numbers.",
       .assign = [&sampling](const std::string& text) -> Status {
         TRY_ASSIGN(const std::int64_t seed, parse_number<std::int64_t>(text, -1, UINT32_MAX));
         sampling.seed.reset();
         if (seed >= 0) sampling.seed = static_cast<std::uint32_t>(seed);
         return {};
       }},
      {.spelling = "--samplers NAME;...",
       .default_text = order,
       .effect = "The samplers that work, in this order; infill and adaptive_p are further ones.",
       .assign = order_into(options, engine::parse_sampler_names)},
      {.spelling = "--sampler-seq, --sampling-seq LETTERS",
       .default_text = "edskypmxt, or the model file's",
       .effect = "The same by letters; i and a are the further ones.",
       .assign = order_into(options, engine::parse_sampler_letters)},
  };
  for (std::vector<Flag> (*more)(ServeOptions&) : {choice_flags, penalty_flags, draw_flags, form_flags}) {
    std::ranges::move(more(options), std::back_inserter(flags));
  }
  return flags;
}

}  // namespace kvkeep::cli
