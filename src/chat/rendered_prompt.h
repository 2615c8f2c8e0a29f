#pragma once

// A rendered prompt: markers, and the text between them.
//
// The template's markers are ids here, so that no later step has to find them in text again, and text that spells a
// marker stays text. Concatenating the spans gives the printed prompt.

#include <string>
#include <vector>

#include "base/types.h"

namespace kvkeep::chat {

enum class SpanKind {
  kMarker,       // written by the template: one token
  kText,         // written by the template
  kMessageText,  // from the client's messages, tools or arguments
};

struct PromptSpan {
  SpanKind kind = SpanKind::kText;
  TokenId marker = -1;  // kMarker only
  std::string text;     // a marker's spelling, or the text
  bool operator==(const PromptSpan&) const = default;
};

struct RenderedPrompt {
  std::vector<PromptSpan> spans;

  // The prompt as it reads, for /apply-template, logs and tests.
  std::string text() const {
    std::string all;
    for (const PromptSpan& span : spans) all += span.text;
    return all;
  }
};

}  // namespace kvkeep::chat
