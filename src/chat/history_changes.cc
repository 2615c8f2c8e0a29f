#include "chat/history_changes.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "chat/synthetic.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;
using synthetic::Thinking;

constexpr std::string_view kSystem = "kvkeepsystem";
constexpr std::string_view kTools = "kvkeepdescription";
constexpr std::string_view kTask = "kvkeeptask";
constexpr std::string_view kNextTask = "kvkeepnext";
constexpr std::string_view kResult = "kvkeepresultone";
constexpr std::string_view kNextResult = "kvkeepresulttwo";
constexpr std::string_view kThoughts[] = {"kvkeepthoughtone", "kvkeepthoughttwo", "kvkeepthoughtthree"};
constexpr std::string_view kAnswer = "kvkeepanswer";

constexpr std::int64_t kNoonS = 1'000'036'800;
constexpr std::int64_t kLaterThatDayS = 3600 + 60 + 1;  // another hour, minute and second
constexpr std::int64_t kAnotherDayS = 500 * 86400;      // another year, month, day and day of the week

// The printed conversation; nullopt if the template refuses it.
using Rendering = std::optional<std::string>;

std::size_t common_head(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// One side of a comparison: an earlier prompt, its last messages, and the thinking of the reply to it.
struct Asked {
  Rendering prompt;
  std::string_view user;
  std::string_view last;
  std::string_view thinking;
};

Change change_between(const Asked& asked, const Rendering& later) {
  if (!asked.prompt || !later) return Change::kUnknown;
  const std::size_t user = asked.prompt->rfind(asked.user);
  const std::size_t last = asked.prompt->rfind(asked.last);
  // A template that leaves the messages out shows nothing.
  if (user == std::string::npos || last == std::string::npos) return Change::kUnknown;
  const std::size_t same = common_head(*asked.prompt, *later);
  if (same < user + asked.user.size()) return Change::kEarlier;
  if (same < last + asked.last.size()) return Change::kLoop;
  const bool reply_stays = same == asked.prompt->size() && later->find(asked.thinking, same) != std::string::npos;
  return reply_stays ? Change::kNothing : Change::kReply;
}

class Learner {
 public:
  Learner(const ChatTemplate& chat_template, const MarkerSet& markers, const ordered_json& kwargs, bool tools_first)
      : chat_template_(chat_template), markers_(markers), kwargs_(kwargs), tools_first_(tools_first) {}

  HistoryChanges learn() {
    HistoryChanges changes = learn_thinking(Thinking::kField);
    // A template that does not read that field may keep thinking in the content.
    if (!thinking_seen_) {
      HistoryChanges in_content = learn_thinking(Thinking::kContent);
      if (thinking_seen_) changes = in_content;
    }
    changes.order = learn_order();
    changes.clock = learn_clock();
    return changes;
  }

 private:
  Rendering render(ordered_json messages, ordered_json tools = nullptr, std::int64_t local_time_s = kNoonS) {
    RenderInput input;
    input.messages = std::move(messages);
    input.tools = std::move(tools);
    input.template_kwargs = kwargs_;
    input.tools_first = tools_first_;
    input.local_time_s = local_time_s;
    auto rendered = render_prompt(chat_template_, markers_, std::move(input));
    if (!rendered) return std::nullopt;
    std::string text = rendered->text();
    for (const std::string_view thought : kThoughts) thinking_seen_ |= text.find(thought) != std::string::npos;
    return text;
  }

  HistoryChanges learn_thinking(Thinking form) {
    const auto compare = [&](const Asked& asked, const Rendering& later) {
      return as_sampled(change_between(asked, later), form);
    };
    HistoryChanges changes;
    auto talk = ordered_json::array({synthetic::message("user", kTask)});
    const Asked first{render(talk), kTask, kTask, kThoughts[0]};
    ordered_json plain = talk;
    plain.push_back(synthetic::answer(kThoughts[0], kAnswer, form));
    plain.push_back(synthetic::message("user", kNextTask));
    changes.next_message = compare(first, render(plain));

    const ordered_json tools = synthetic::tools(kTools);
    const Asked task{render(talk, tools), kTask, kTask, kThoughts[0]};
    talk.push_back(synthetic::call(kThoughts[0], form));
    talk.push_back(synthetic::result(kResult));
    const Asked in_loop{render(talk, tools), kTask, kResult, kThoughts[1]};
    changes.tool_result = compare(task, in_loop.prompt);
    talk.push_back(synthetic::call(kThoughts[1], form));
    talk.push_back(synthetic::result(kNextResult));
    const Asked at_end{render(talk, tools), kTask, kNextResult, kThoughts[2]};
    changes.tool_result = std::max(changes.tool_result, compare(in_loop, at_end.prompt));
    talk.push_back(synthetic::answer(kThoughts[2], kAnswer, form));
    talk.push_back(synthetic::message("user", kNextTask));
    changes.after_tools = compare(at_end, render(talk, tools));
    return changes;
  }

  // Thinking in the content comes back as text, although the model sampled the marker.
  Change as_sampled(Change change, Thinking form) const {
    if (form == Thinking::kField || change != Change::kNothing) return change;
    const bool marked =
        std::ranges::any_of(markers_.markers(), [](const Marker& m) { return m.spelling == "<think>"; });
    return marked ? Change::kReply : change;
  }

  // Renders the prompts of two clients that differ only in the system message, or only in the tools.
  Order learn_order() {
    const auto prompt = [&](std::string_view system, std::string_view tools) {
      return render(
          {synthetic::message("system", std::string(kSystem).append(system)), synthetic::message("user", kTask)},
          synthetic::tools(std::string(kTools).append(tools)));
    };
    const Rendering base = prompt("A", "A");
    const Rendering other_system = prompt("B", "A");
    const Rendering other_tools = prompt("A", "B");
    if (!base || !other_system || !other_tools || *base == *other_system || *base == *other_tools) {
      return Order::kUnknown;
    }
    const bool tools_first = common_head(*base, *other_tools) < common_head(*base, *other_system);
    return tools_first ? Order::kToolsFirst : Order::kSystemFirst;
  }

  // Renders with tools, if the template allows it: some write the date only next to them.
  Clock learn_clock() {
    for (const ordered_json& tools : {synthetic::tools(kTools), ordered_json()}) {
      const auto at = [&](std::int64_t time_s) {
        return render({synthetic::message("system", kSystem), synthetic::message("user", kTask)}, tools, time_s);
      };
      const Rendering noon = at(kNoonS);
      if (!noon) continue;
      if (noon != at(kNoonS + kLaterThatDayS)) return Clock::kTimeOfDay;
      return noon != at(kNoonS + kAnotherDayS) ? Clock::kDate : Clock::kNone;
    }
    return Clock::kNone;
  }

  const ChatTemplate& chat_template_;
  const MarkerSet& markers_;
  const ordered_json& kwargs_;
  const bool tools_first_;
  bool thinking_seen_ = false;
};

std::string_view thinking_words(const HistoryChanges& changes) {
  const auto is = [](Change change, auto... any) { return ((change == any) || ...); };
  if (is(changes.next_message, Change::kUnknown) && is(changes.after_tools, Change::kUnknown)) {
    return "where it changes earlier turns is not known (it refuses such conversations)";
  }
  if (is(changes.after_tools, Change::kLoop)) {
    return is(changes.tool_result, Change::kNothing)
               ? "thinking stays until the next user message, and is dropped then from all since the one before"
               : "a user message changes everything since the one before";
  }
  if (is(changes.next_message, Change::kEarlier) || is(changes.after_tools, Change::kEarlier)) {
    return "a user message changes what lies before the last one, too";
  }
  if (is(changes.next_message, Change::kNothing) && is(changes.after_tools, Change::kNothing, Change::kUnknown) &&
      is(changes.tool_result, Change::kNothing, Change::kUnknown)) {
    return "earlier turns never change";
  }
  return is(changes.tool_result, Change::kNothing) ? "answers with thinking are written anew, calls of tools are not"
                                                   : "every reply with thinking is written anew";
}

}  // namespace

HistoryChanges learn_history_changes(const ChatTemplate& chat_template, const MarkerSet& markers,
                                     const ordered_json& kwargs, bool tools_first) {
  return Learner(chat_template, markers, kwargs, tools_first).learn();
}

std::string describe(const HistoryChanges& changes) {
  std::string line("chat template: ");
  line += thinking_words(changes);
  if (changes.after_tools == Change::kUnknown && changes.next_message != Change::kUnknown)
    line += "; it refuses tool calls";
  if (changes.order == Order::kToolsFirst) line += "; tools come before the system message";
  if (changes.order == Order::kSystemFirst) line += "; tools come after the system message";
  if (changes.clock == Clock::kDate) line += "; it writes the date";
  if (changes.clock == Clock::kTimeOfDay) line += "; it writes the time of day, which changes every prompt";
  return line;
}

}  // namespace kvkeep::chat
