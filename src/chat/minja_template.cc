#include "chat/minja_template.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <exception>
#include <minja/chat-template.hpp>
#include <regex>
#include <set>

#include "chat/minja_guard.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxSourceBytes = std::size_t{256} * 1024;
constexpr std::string_view kDatesVariable = "kvkeep_dates";
constexpr std::string_view kChatMl =
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "  {{- '<|im_start|>assistant\\n' -}}\n"
    "{%- endif -%}\n";

// What minja says when it lacks a feature; everything else it throws is the template's own verdict on the messages.
constexpr std::array kLackingFeature = std::to_array<std::string_view>({
    "Undefined filter",
    "Undefined test",
    "Unknown method",
    "Unknown type for 'is'",
    "not implemented",
    "is not callable",
    "Filter must be a callable",
    "Unknown binary operator",
    "Undefined variable",
    "not supported",
    "Unknown argument",
});

std::string one_line(std::string_view message) {
  message = message.substr(0, message.find('\n'));
  if (const std::size_t place = message.find(" at row "); place != std::string_view::npos) {
    message = message.substr(0, place);
  }
  constexpr std::size_t kLongest = 300;  // minja quotes the whole context in some messages
  return std::string("chat template: ").append(message.substr(0, kLongest));
}

Error render_error(std::string_view message) {
  const bool lacking = std::ranges::any_of(
      kLackingFeature, [&](std::string_view sign) { return message.find(sign) != std::string_view::npos; });
  return lacking ? unsupported(one_line(message)) : invalid(one_line(message));
}

// strftime_now would read the clock, and minja's goes through a shared buffer. Calls with a literal format become
// look-ups in a table that print() fills from the time it is given.
class Dates {
 public:
  explicit Dates(std::string& source) {
    static const std::regex call_pattern(R"re(strftime_now\(\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\))re");
    std::string rewritten;
    auto begin = source.cbegin();
    for (std::sregex_iterator call(source.begin(), source.end(), call_pattern), none; call != none; ++call) {
      const std::string format = (*call)[1].matched ? (*call)[1] : (*call)[2];
      formats_.insert(format);
      rewritten.append(begin, (*call)[0].first);
      rewritten.append("(").append(kDatesVariable).append("['").append(format).append("'] if ");
      rewritten.append(kDatesVariable).append(" is defined else '1970-01-01')");
      begin = (*call)[0].second;
    }
    source = rewritten.append(begin, source.cend());
  }

  ordered_json at(std::int64_t local_time_s) const {
    ordered_json table = ordered_json::object();
    const auto time = static_cast<std::time_t>(local_time_s);
    std::tm civil{};
    if (gmtime_r(&time, &civil) == nullptr) return table;
    for (const std::string& format : formats_) {
      std::array<char, 256> text{};
      table[format] = std::string(text.data(), std::strftime(text.data(), text.size(), format.c_str(), &civil));
    }
    return table;
  }
  bool empty() const { return formats_.empty(); }

 private:
  std::set<std::string> formats_;
};

class MinjaTemplate : public ChatTemplate {
 public:
  MinjaTemplate(std::string source, const std::string& rewritten, Dates dates, const TemplateTokens& tokens)
      : source_(std::move(source)), dates_(std::move(dates)), engine_(rewritten, tokens.bos, tokens.eos) {
    guard_rendering(engine_);
    const auto caps = engine_.original_caps();
    wants_object_arguments_ = caps.requires_object_arguments || !caps.supports_tool_calls || prints_objects();
  }

  std::string_view source() const override { return source_; }

  bool wants_object_arguments() const override { return wants_object_arguments_; }

  Result<std::string> print(const RenderInput& input) const override {
    minja::chat_template_inputs inputs;
    inputs.messages = input.messages;
    inputs.tools = input.tools.empty() ? ordered_json() : input.tools;
    inputs.add_generation_prompt = input.add_generation_prompt;
    inputs.extra_context = input.template_kwargs.is_object() ? input.template_kwargs : ordered_json::object();
    inputs.now = {};
    minja::chat_template_options options;
    options.define_strftime_now = false;
    if (!dates_.empty()) {
      inputs.extra_context[std::string(kDatesVariable)] = dates_.at(input.local_time_s);
      inputs.extra_context["strftime_now"] = true;  // so that `strftime_now is defined` holds
    }
    try {
      return engine_.apply(inputs, options);
    } catch (const std::exception& failure) {
      return render_error(failure.what());
    }
  }

 private:
  // The template writes an arguments object as JSON or as tags. Then it gets objects, whatever spaces the client's JSON
  // had: the text comes out as models are trained to write it, and re-serialised arguments do not change the prompt.
  bool prints_objects() const {
    const ordered_json call = {{"id", "call_1"},
                               {"type", "function"},
                               {"function", {{"name", "probe"}, {"arguments", {{"argument_needle", "x"}}}}}};
    const auto text = print({.messages = {{{"role", "user"}, {"content", "x"}},
                                          {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}}}});
    if (!text) return false;
    return text->find("\"argument_needle\":") != std::string::npos ||
           text->find("=argument_needle>") != std::string::npos;
  }

  const std::string source_;
  const Dates dates_;
  minja::chat_template engine_;
  bool wants_object_arguments_ = false;
};

}  // namespace

std::string_view default_template_source() { return kChatMl; }

Result<std::unique_ptr<ChatTemplate>> make_minja_template(std::string_view source, const TemplateTokens& tokens) {
  if (source.empty()) source = kChatMl;
  if (source.size() > kMaxSourceBytes) return unsupported("chat template: longer than 256 KiB");
  std::string rewritten(source);
  try {
    Dates dates(rewritten);
    return std::unique_ptr<ChatTemplate>(
        std::make_unique<MinjaTemplate>(std::string(source), rewritten, std::move(dates), tokens));
  } catch (const std::exception& failure) {
    return unsupported(one_line(failure.what()) + " (does not parse)");
  }
}

}  // namespace kvkeep::chat
