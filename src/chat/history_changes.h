#pragma once

// Finds out where a template changes history, so that it differs from what was prompted and sampled.
//
// The next request of a conversation begins with the prompt before it and the sampled reply, unless the template
// changes them: many drop the thinking of earlier answers, some of all answers, some move tools to the last user
// message. So synthetic conversations are rendered once per template. The learnt traits decide only where state is
// saved and kept: ids decide what is reused, and a template from which nothing can be learnt costs time, never
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
  kReply,    // the reply and its opening change; everything before stays
  kLoop,     // everything after the last user message of the earlier prompt changes
  kEarlier,  // that user message or something before it changes, too
};

enum class Order {
  kUnknown,      // the template writes no tools or no system message, or refuses them
  kToolsFirst,   // requests with the same tools share them whatever the system message says
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

  // Returns false if a new user message is known to leave the tool loop before it unchanged.
  bool loop_may_change() const { return after_tools != Change::kNothing && after_tools != Change::kReply; }
  bool operator==(const HistoryChanges&) const = default;
};

// Renders about a dozen short conversations, each with the same date. Takes a few milliseconds. `kwargs`: the variables
// that the server sets in every request (RenderInput::template_kwargs); a switch among them may keep earlier thinking.
// `tools_first`: RenderInput::tools_first of every request.
HistoryChanges learn_history_changes(const ChatTemplate& chat_template, const MarkerSet& markers,
                                     const nlohmann::ordered_json& kwargs = nullptr, bool tools_first = true);

// One line for the log.
std::string describe(const HistoryChanges& changes);

}  // namespace kvkeep::chat
