#include "chat/builtin_templates.h"

#include <algorithm>
#include <array>

namespace kvkeep::chat {
namespace {

// The text around the messages of one role.
struct Around {
  std::string_view open;
  std::string_view close;
  bool trims = false;  // white space around the message goes
};

// Messages one after the other, each between the texts of its role.
struct PlainTemplate {
  std::string_view name;
  std::string_view begin;
  Around system, user, assistant;
  std::string_view answer;  // opens the assistant's turn
};

constexpr PlainTemplate kPlain[] = {
    {"bailing",
     "",
     {"<role>SYSTEM</role>", ""},
     {"<role>HUMAN</role>", ""},
     {"<role>ASSISTANT</role>", ""},
     "<role>ASSISTANT</role>"},
    {"bailing-think",
     "",
     {"<role>SYSTEM</role>", ""},
     {"<role>HUMAN</role>", ""},
     {"<role>ASSISTANT</role>", ""},
     "<role>ASSISTANT</role><think>"},
    {"chatglm3", "[gMASK]sop", {"<|system|>\n ", ""}, {"<|user|>\n ", ""}, {"<|assistant|>\n ", ""}, "<|assistant|>"},
    {"chatglm4", "[gMASK]<sop>", {"<|system|>\n", ""}, {"<|user|>\n", ""}, {"<|assistant|>\n", ""}, "<|assistant|>\n"},
    {"chatml",
     "",
     {"<|im_start|>system\n", "<|im_end|>\n"},
     {"<|im_start|>user\n", "<|im_end|>\n"},
     {"<|im_start|>assistant\n", "<|im_end|>\n"},
     "<|im_start|>assistant\n"},
    {"command-r",
     "",
     {"<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>", true},
     {"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>", true},
     {"<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>", true},
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
    {"deepseek", "", {"", ""}, {"### Instruction:\n", "\n"}, {"### Response:\n", "\n<|EOT|>\n"}, "### Response:\n"},
    {"deepseek-ocr", "", {"", ""}, {"", ""}, {"", ""}, ""},
    {"deepseek2", "", {"", "\n\n"}, {"User: ", "\n\n"}, {"Assistant: ", "<｜end▁of▁sentence｜>"}, "Assistant:"},
    {"deepseek3",
     "",
     {"", "\n\n"},
     {"<｜User｜>", ""},
     {"<｜Assistant｜>", "<｜end▁of▁sentence｜>"},
     "<｜Assistant｜>"},
    {"exaone-moe",
     "",
     {"<|system|>\n", "<|endofturn|>\n", true},
     {"<|user|>\n", "<|endofturn|>\n", true},
     {"<|assistant|>\n", "<|endofturn|>\n", true},
     "<|assistant|>\n"},
    {"exaone3",
     "",
     {"[|system|]", "[|endofturn|]\n", true},
     {"[|user|]", "\n", true},
     {"[|assistant|]", "[|endofturn|]\n", true},
     "[|assistant|]"},
    {"exaone4",
     "",
     {"[|system|]", "[|endofturn|]\n", true},
     {"[|user|]", "\n", true},
     {"[|assistant|]", "[|endofturn|]\n", true},
     "[|assistant|]"},
    {"falcon3", "", {"<|system|>\n", "\n"}, {"<|user|>\n", "\n"}, {"<|assistant|>\n", "\n"}, "<|assistant|>\n"},
    {"gigachat",
     "<s>",
     {"", "<|message_sep|>"},
     {"user<|role_sep|>", "<|message_sep|>available functions<|role_sep|>[]<|message_sep|>"},
     {"assistant<|role_sep|>", "<|message_sep|>"},
     "assistant<|role_sep|>"},
    {"glmedge", "", {"<|system|>\n", ""}, {"<|user|>\n", ""}, {"<|assistant|>\n", ""}, "<|assistant|>"},
    {"gpt-oss",
     "",
     {"<|start|>system<|message|>", "<|end|>"},
     {"<|start|>user<|message|>", "<|end|>"},
     {"<|start|>assistant<|message|>", "<|return|>"},
     "<|start|>assistant"},
    {"granite",
     "",
     {"<|start_of_role|>system<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n"},
     "<|start_of_role|>assistant<|end_of_role|>"},
    {"granite-4.0",
     "",
     {"<|start_of_role|>system<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n"},
     "<|start_of_role|>assistant<|end_of_role|>"},
    {"granite-4.1",
     "",
     {"<|start_of_role|>system<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n"},
     "<|start_of_role|>assistant<|end_of_role|>"},
    {"grok-2",
     "",
     {"System: ", "<|separator|>\n\n", true},
     {"Human: ", "<|separator|>\n\n", true},
     {"Assistant: ", "<|separator|>\n\n"},
     "Assistant:"},
    {"hunyuan-dense",
     "",
     {"", "<｜hy_place▁holder▁no▁3｜>"},
     {"<｜hy_User｜>", "<｜hy_Assistant｜>"},
     {"<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁2｜>"},
     ""},
    {"hunyuan-moe", "", {"<|startoftext|>", "<|extra_4|>"}, {"<|startoftext|>", "<|extra_0|>"}, {"", "<|eos|>"}, ""},
    {"hunyuan-vl",
     "<｜hy_begin▁of▁sentence｜>",
     {"", "<｜hy_place▁holder▁no▁3｜>"},
     {"", "<｜hy_User｜>"},
     {"", "<｜hy_Assistant｜>"},
     ""},
    {"kimi-k2",
     "",
     {"<|im_system|>system<|im_middle|>", "<|im_end|>"},
     {"<|im_user|>user<|im_middle|>", "<|im_end|>"},
     {"<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"},
     "<|im_assistant|>assistant<|im_middle|>"},
    {"llama3",
     "",
     {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", true},
     {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>", true},
     {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", true},
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"llama4",
     "",
     {"<|header_start|>system<|header_end|>\n\n", "<|eot|>", true},
     {"<|header_start|>user<|header_end|>\n\n", "<|eot|>", true},
     {"<|header_start|>assistant<|header_end|>\n\n", "<|eot|>", true},
     "<|header_start|>assistant<|header_end|>\n\n"},
    {"megrez",
     "",
     {"<|role_start|>system<|role_end|>", "<|turn_end|>"},
     {"<|role_start|>user<|role_end|>", "<|turn_end|>"},
     {"<|role_start|>assistant<|role_end|>", "<|turn_end|>"},
     "<|role_start|>assistant<|role_end|>"},
    {"minicpm", "", {"", "", true}, {"<用户>", "<AI>", true}, {"", "", true}, ""},
    {"mistral-v7", "", {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"}, {"[INST] ", "[/INST]"}, {" ", "</s>"}, ""},
    {"mistral-v7-tekken", "", {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, {"[INST]", "[/INST]"}, {"", "</s>"}, ""},
    {"openchat",
     "",
     {"", "<|end_of_turn|>"},
     {"GPT4 Correct User: ", "<|end_of_turn|>"},
     {"GPT4 Correct Assistant: ", "<|end_of_turn|>"},
     "GPT4 Correct Assistant:"},
    {"phi3",
     "",
     {"<|system|>\n", "<|end|>\n"},
     {"<|user|>\n", "<|end|>\n"},
     {"<|assistant|>\n", "<|end|>\n"},
     "<|assistant|>\n"},
    {"phi4",
     "",
     {"<|im_start|>system<|im_sep|>", "<|im_end|>"},
     {"<|im_start|>user<|im_sep|>", "<|im_end|>"},
     {"<|im_start|>assistant<|im_sep|>", "<|im_end|>"},
     "<|im_start|>assistant<|im_sep|>"},
    {"seed_oss",
     "",
     {"<seed:bos>system\n", "<seed:eos>"},
     {"<seed:bos>user\n", "<seed:eos>"},
     {"<seed:bos>assistant\n", "<seed:eos>", true},
     "<seed:bos>assistant\n"},
    {"smolvlm",
     "<|im_start|>",
     {"", "\n\n"},
     {"User: ", "<end_of_utterance>\n"},
     {"Assistant: ", "<end_of_utterance>\n"},
     "Assistant:"},
    {"solar-open",
     "",
     {"<|begin|>system<|content|>", "<|end|>"},
     {"<|begin|>user<|content|>", "<|end|>"},
     {"<|begin|>assistant<|content|>", "<|end|>"},
     "<|begin|>assistant"},
    {"vicuna", "", {"", "\n\n"}, {"USER: ", "\n"}, {"ASSISTANT: ", "</s>\n"}, "ASSISTANT:"},
    {"vicuna-orca", "", {"SYSTEM: ", "\n"}, {"USER: ", "\n"}, {"ASSISTANT: ", "</s>\n"}, "ASSISTANT:"},
    {"zephyr",
     "",
     {"<|system|>\n", "<|endoftext|>\n"},
     {"<|user|>\n", "<|endoftext|>\n"},
     {"<|assistant|>\n", "<|endoftext|>\n"},
     "<|assistant|>\n"},
};

// A system message is a part of the user's that follows.
constexpr std::string_view kGemma =
    R"({%- set ns = namespace(system="") -%}
{%- for message in messages -%}
{%- set content = (message.content or "") | trim -%}
{%- if message.role == "system" -%}
{%- set ns.system = ns.system + content -%}
{%- elif message.role == "assistant" -%}
{{- "<start_of_turn>model\n" + content + "<end_of_turn>\n" -}}
{%- else -%}
{{- "<start_of_turn>user\n" + (ns.system + "\n\n" if ns.system else "") + content + "<end_of_turn>\n" -}}
{%- set ns.system = "" -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<start_of_turn>model\n" -}}{%- endif -%})";

// The spellings by which the instruction families differ.
struct Instruction {
  std::string_view name;
  std::string_view open;   // before a system or user message that begins a turn
  std::string_view later;  // the same, but for the first turn
  Around system, user, assistant;
};

constexpr std::array kInstructions = std::to_array<Instruction>({
    {"llama2", "[INST] ", "[INST] ", {"", "\n"}, {"", " [/INST]"}, {"", "</s>"}},
    {"llama2-sys", "[INST] ", "[INST] ", {"<<SYS>>\n", "\n<</SYS>>\n\n"}, {"", " [/INST]"}, {"", "</s>"}},
    {"llama2-sys-bos", "[INST] ", "<s>[INST] ", {"<<SYS>>\n", "\n<</SYS>>\n\n"}, {"", " [/INST]"}, {"", "</s>"}},
    {"llama2-sys-strip",
     "[INST] ",
     "[INST] ",
     {"<<SYS>>\n", "\n<</SYS>>\n\n", true},
     {"", " [/INST]", true},
     {"", "</s>", true}},
    {"mistral-v1", " [INST] ", " [INST] ", {"", "\n\n"}, {"", " [/INST]"}, {" ", "</s>"}},
    {"mistral-v3", "[INST] ", "[INST] ", {"", "\n\n"}, {"", "[/INST]"}, {" ", "</s>", true}},
    {"mistral-v3-tekken", "[INST]", "[INST]", {"", "\n\n"}, {"", "[/INST]"}, {"", "</s>"}},
});

std::string quoted(std::string_view text) {
  std::string literal = "\"";
  for (const char byte : text) {
    if (byte == '\n') {
      literal += "\\n";
    } else {
      literal += byte;
    }
  }
  return literal + "\"";
}

std::string printed(std::string_view text) {
  return text.empty() ? std::string() : std::string("{{- ").append(quoted(text)).append(" -}}");
}

std::string message(const Around& around) {
  std::string expression = quoted(around.open);
  expression.append(" + (message.content or \"\")").append(around.trims ? " | trim" : "");
  return std::string("{{- ").append(expression).append(" + ").append(quoted(around.close)).append(" -}}");
}

// Every role but system and assistant (a tool) is a user.
std::string by_role(const Around& system, const Around& user, const Around& assistant) {
  std::string source = R"({%- if message.role == "system" -%})";
  source.append(message(system)).append(R"({%- elif message.role == "assistant" -%})").append(message(assistant));
  return source.append("{%- else -%}").append(message(user)).append("{%- endif -%}");
}

std::string source_of(const PlainTemplate& plain) {
  std::string source = printed(plain.begin);
  source.append("{%- for message in messages -%}").append(by_role(plain.system, plain.user, plain.assistant));
  source.append("{%- endfor -%}");
  if (plain.answer.empty()) return source;
  return source.append("{%- if add_generation_prompt -%}").append(printed(plain.answer)).append("{%- endif -%}");
}

std::string source_of(const Instruction& family) {
  std::string source = "{%- set ns = namespace(open=false) -%}{%- for message in messages -%}{%- if not ns.open -%}";
  source.append("{%- if loop.first -%}").append(printed(family.open)).append("{%- else -%}");
  source.append(printed(family.later)).append("{%- endif -%}{%- set ns.open = true -%}{%- endif -%}");
  source.append(by_role(family.system, family.user, family.assistant));
  source.append(R"({%- if message.role == "assistant" -%}{%- set ns.open = false -%}{%- endif -%})");
  return source.append("{%- endfor -%}");
}

}  // namespace

std::vector<std::string> builtin_template_names() {
  std::vector<std::string> names = {"gemma"};
  for (const PlainTemplate& plain : kPlain) names.emplace_back(plain.name);
  for (const Instruction& family : kInstructions) names.emplace_back(family.name);
  std::ranges::sort(names);
  return names;
}

std::optional<std::string> builtin_template(std::string_view name) {
  if (name == "gemma") return std::string(kGemma);
  const auto plain = std::ranges::find(kPlain, name, &PlainTemplate::name);
  if (plain != std::ranges::end(kPlain)) return source_of(*plain);
  const auto family = std::ranges::find(kInstructions, name, &Instruction::name);
  return family == kInstructions.end() ? std::nullopt : std::optional(source_of(*family));
}

}  // namespace kvkeep::chat
