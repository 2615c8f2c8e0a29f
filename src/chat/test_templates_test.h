#pragma once

// Chat templates for tests, written in the manner of the families they stand for.

#include <string_view>

namespace kvkeep::chat {

// ChatML with Hermes-style tools; arguments through tojson, tool results as user turns.
inline constexpr std::string_view kHermes = R"jinja({%- if tools %}
{{- '<|im_start|>system\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
{{- 'Tools:' }}
{%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
{{- '<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}
{{- '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- if message.reasoning_content %}{{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{%- endif %}
{{- message.content }}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}
{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}{{- call.function.arguments | tojson }}{{- '}\n</tool_call>' }}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\n' + message.content | trim + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})jinja";

// Arguments as tags named by the client, content through several filters: the worst a template does to text.
inline constexpr std::string_view kRough = R"jinja({{- bos_token }}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.name %}{{- '<' + message.name + '>' }}{%- endif %}
{{- message.content | trim | upper }}{{- message.content.split('#')[-1] | trim }}{{- message.content }}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}{{- call.function.arguments | tojson }}
{%- for key, value in call.function.arguments | items %}{{- '<' + key + '>' + (value if value is string else value | tojson) + '</' + key + '>' }}{%- endfor %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- endfor %})jinja";

}  // namespace kvkeep::chat
