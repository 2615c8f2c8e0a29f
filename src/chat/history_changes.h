#pragma once

// Where a template writes history otherwise than it was prompted and sampled.
//
// The next request of a conversation begins with what the one before was prompted with and sampled, unless the template
// changes it: many drop the thinking of earlier answers, some of all answers, some move tools to the last user message.
// So each template is asked once, with synthetic conversations. The learnt traits decide only where state is saved and
// kept: what is reused is decided by ids, and a template from which nothing can be learnt costs time, never
// correctness.

#include <nlohmann/json.hpp>
#include <string>

#include "chat/marker_set.h"
#include "chat/render.h"

namespace kvkeep::chat {

// From where the next prompt differs from the earlier one and its reply.
enum class Change {
  kUnknown,  // the template refuses such a conversation
  kNothing,  // it goes on after the reply as it was sampled
  kReply,    // the reply is written anew, with the opening for it; what was prompted before stays
  kLoop,     // everything after the last user message of the earlier prompt is written anew
  kEarlier,  // that user message or what lies before it changes, too
};

enum class Order {
  kUnknown,      // the template writes no tools or no system message, or refuses them
  kToolsFirst,   // whoever shares the tools shares them whatever the system message says
  kSystemFirst,  // a system message that changes changes everything after it, the tools included
};

enum class Clock {
  kNone,
  kDate,       // the date is in the prompt: a new day changes what follows it
  kTimeOfDay,  // prompts change within a day: little can be shared
};

struct HistoryChanges {
  Change next_message = Change::kUnknown;  // a user message after an answer with thinking
  Change tool_result = Change::kUnknown;   // a tool's result after a call with thinking
  Change after_tools = Change::kUnknown;   // a user message after the answer that ends a loop of such calls
  Order order = Order::kUnknown;
  Clock clock = Clock::kNone;

  // True unless it is known that a new user message leaves the tool loop before it as it was.
  bool loop_may_change() const { return after_tools != Change::kNothing && after_tools != Change::kReply; }
  bool operator==(const HistoryChanges&) const = default;
};

// Renders about a dozen short conversations, each with the same date. Takes a few milliseconds. `kwargs`: what the
// server tells the template in every request (RenderInput::template_kwargs); a switch among them may keep earlier
// thinking. `tools_first`: RenderInput::tools_first of every request.
HistoryChanges learn_history_changes(const ChatTemplate& chat_template, const MarkerSet& markers,
                                     const nlohmann::ordered_json& kwargs = nullptr, bool tools_first = true);

// One line for the log.
std::string describe(const HistoryChanges& changes);

}  // namespace kvkeep::chat
