#include "server/routes/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/media_ids.h"
#include "chat/tokenize.h"
#include "server/routes/exact_replay.h"
#include "server/routes/fill_in.h"
#include "server/routes/prompt_files.h"

namespace kvkeep::server {
namespace {

std::size_t least_tokens(const Service& service, std::size_t text_bytes) {
  const auto longest = service.vocabulary->longest_piece_bytes();
  return longest ? text_bytes / *longest : 0;
}

// The result for a text that is not tokenized, because it cannot fit.
std::optional<Prompt> too_long(const Service& service, std::size_t text_bytes, std::size_t tokens_min) {
  if (tokens_min < service.context_tokens || text_bytes <= kAlwaysCountedBytes) return std::nullopt;
  return Prompt{.ids = {}, .tokens_min = tokens_min, .is_counted = false};
}

Prompt of_ids(std::vector<TokenId> ids) {
  const std::size_t count = ids.size();
  return {.ids = std::move(ids), .tokens_min = count};
}

// The settings of one request.
struct Asking {
  const Tenant& tenant;
  const std::function<bool()>& gone;
  Counting counting;
  MessagesAfter messages;
  std::optional<std::int64_t> max_tokens = {};
};

Result<Prompt> of_text(const Service& service, const std::string& text, const Asking& asking) {
  if (asking.counting == Counting::kWhereItFits) {
    if (auto refused = too_long(service, text.size(), least_tokens(service, text.size()))) return *std::move(refused);
  }
  // BOS as the vocabulary wants, and spellings become markers.
  const TokenizeOptions raw{.add_special = true, .parse_special = true};
  TRY_ASSIGN(std::vector<TokenId> ids, service.long_text->tokenize(text, raw, asking.gone));
  return of_ids(std::move(ids));
}

// The tokens of a reply that a prompt with a gap leaves room for.
std::size_t fill_room(const Service& service, std::optional<std::int64_t> max_tokens) {
  constexpr std::int64_t kReply = 256;
  const auto context = static_cast<std::int64_t>(service.context_tokens);
  const std::int64_t reply =
      std::clamp<std::int64_t>(max_tokens.value_or(kReply), 1, std::max<std::int64_t>(context / 4, 1));
  return static_cast<std::size_t>(std::max<std::int64_t>(context - reply, 0));
}

// Reads the parts of a text with a gap. The fixed names are llama-server's.
class FillReader {
 public:
  // `room`: of the prompt, in tokens. Texts that are longer than any that fits are cut before they are tokenized.
  FillReader(const Service& service, const Asking& asking, std::size_t room)
      : service_(service), asking_(asking), tokens_(service.vocabulary->fill_tokens()) {
    if (const auto longest = service.vocabulary->longest_piece_bytes()) most_bytes_ = room * *longest;
  }

  Result<FillParts> read(const api::FillIn& fill) const {
    FillParts parts;
    const auto bos = service_.vocabulary->bos();
    if (bos && service_.vocabulary->add_bos()) parts.begin.push_back(*bos);
    if (fill.names_files) TRY(read_names(fill, parts));
    TRY_ASSIGN(parts.before, ids_of(end_of_text(fill.prefix, most_bytes_)));
    TRY(add(parts.before, end_of_text(fill.typed, most_bytes_)));
    TRY_ASSIGN(parts.after, ids_of(beginning_of_text(fill.suffix, most_bytes_)));
    return parts;
  }

 private:
  Status read_names(const api::FillIn& fill, FillParts& parts) const {
    if (tokens_.repository) {
      parts.begin.push_back(*tokens_.repository);
      TRY(add(parts.begin, "myproject\n"));
    }
    for (const api::FillIn::File& file : fill.files) {
      if (file.text.size() > most_bytes_) {
        parts.files.clear();  // it would leave, and those before it leave first
        continue;
      }
      FillText& text = parts.files.emplace_back();
      TRY(add_name(text, file.name));
      TRY(add(text, file.text));
    }
    return tokens_.file ? add_name(parts.own_file, "filename") : Status();
  }

  // A vocabulary without a token for files has a line instead.
  Status add_name(FillText& text, const std::string& name) const {
    if (!tokens_.file) return add(text, "\n\n--- snippet ---\n\n");
    text.push_back(*tokens_.file);
    return add(text, name + "\n");
  }

  Status add(FillText& to, std::string_view text) const {
    TRY_ASSIGN(const FillText ids, ids_of(text));
    to.insert(to.end(), ids.begin(), ids.end());
    return {};
  }

  Result<FillText> ids_of(std::string_view text) const {
    if (text.empty()) return FillText();
    return service_.long_text->tokenize(text, {}, asking_.gone);
  }

  const Service& service_;
  const Asking& asking_;
  const FillTokens tokens_;
  std::size_t most_bytes_ = SIZE_MAX;  // of a text that may fit
};

Result<Prompt> of_fill(const Service& service, const api::FillIn& fill, const Asking& asking) {
  const FillTokens tokens = service.vocabulary->fill_tokens();
  if (!tokens.prefix || !tokens.suffix || !tokens.middle) {
    return unsupported(
        "this model cannot fill text in: its vocabulary lacks the tokens for it (prefix, suffix, middle)");
  }
  const std::size_t room = fill_room(service, asking.max_tokens);
  TRY_ASSIGN(FillParts parts, FillReader(service, asking, room).read(fill));
  auto ids = join_fill(std::move(parts), tokens, room, service.fill_order);
  if (!ids) return invalid("the context (-c) is too small to fill text in");
  return of_ids(*std::move(ids));
}

// Looking up a shorter text costs as much as tokenizing it.
constexpr std::size_t kLeastRemembered = 64;
// Longer texts are remembered in parts: a conversation whose template marks turns by words is one text that grows.
constexpr std::size_t kPartRemembered = 1 << 10;

Result<std::vector<TokenId>> tokenize_piece(const Service& service, std::string_view text, const Asking& asking) {
  const auto ids_of = [&](std::string_view part) -> Result<std::vector<TokenId>> {
    if (part.size() < kLeastRemembered) return chat::tokenize_plain(*service.vocabulary, *service.markers, part);
    if (const PieceMemo::Ids known = service.piece_memo->find(part, asking.tenant)) return *known;
    TRY_ASSIGN(std::vector<TokenId> ids, chat::tokenize_plain(*service.vocabulary, *service.markers, part));
    service.piece_memo->remember(part, ids, asking.tenant);
    return ids;
  };
  return service.long_text->in_parts(text, ids_of, asking.gone, kPartRemembered);
}

std::shared_ptr<const PromptParts> parts_of(const Service& service, const chat::RenderedPrompt& rendered,
                                            TokenSpan ids) {
  if (service.piece_sizes == nullptr || rendered.spans.empty() || ids.empty()) return nullptr;
  const auto bos = service.vocabulary->bos();
  // Tokenizing puts a BOS before a prompt that does not begin with one.
  const bool put_first = service.vocabulary->add_bos() && bos == ids.front() && rendered.spans.front().marker != *bos;
  return std::make_shared<PromptParts>(chat::parts_of(rendered, ids, *service.piece_sizes, put_first ? 1 : 0));
}

Error no_text_after_media() { return invalid("no text comes after the last picture or sound"); }

// Finds out how many tokens the files have, and stops where they are too many: to plan a long sound takes seconds.
// Returns the result for a prompt whose files alone do not fit.
Result<std::optional<Prompt>> plan_files(const Service& service, PromptFiles& files,
                                         std::span<const std::size_t> numbers, Counting counting) {
  constexpr std::size_t kCountedContexts = 4;  // who counts may want to know by how much a prompt is too long
  const bool counts_on = counting == Counting::kExact;
  const std::size_t most = service.context_tokens * (counts_on ? kCountedContexts : 1);
  TRY_ASSIGN(const std::size_t tokens, files.plan(numbers, most));
  if (tokens < most) return std::optional<Prompt>();
  if (!counts_on) return std::optional(Prompt{.ids = {}, .tokens_min = tokens, .is_counted = false});
  return invalid(
      fmt::format("the prompt's pictures and sounds have more than {} tokens, {} times the context: they are "
                  "not counted any further",
                  most, kCountedContexts));
}

// Spellings become markers in each text, and only what stands at the beginning has BOS, as the vocabulary wants.
Result<Prompt> of_mixed(const Service& service, const api::MixedPrompt& parts, const Asking& asking) {
  std::vector<chat::MediaFile> files;
  for (const auto& part : parts) {
    if (const auto* file = std::get_if<chat::MediaFile>(&part)) files.push_back(*file);
  }
  std::vector<std::size_t> numbers(files.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  PromptFiles media(service, std::move(files), asking.tenant, asking.gone);
  TRY_ASSIGN(std::optional<Prompt> refused, plan_files(service, media, numbers, asking.counting));
  if (refused) return *std::move(refused);
  std::vector<TokenId> all;
  const auto add = [&all](const std::vector<TokenId>& ids) { all.insert(all.end(), ids.begin(), ids.end()); };
  std::size_t file = 0;
  for (const auto& part : parts) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&part)) {
      add(*ids);
      continue;
    }
    const auto* text = std::get_if<std::string>(&part);
    const TokenizeOptions raw{.add_special = &part == &parts.front(), .parse_special = true};
    TRY_ASSIGN(const std::vector<TokenId> ids,
               service.long_text->tokenize(text != nullptr ? *text : std::string(), raw, asking.gone));
    add(ids);
    if (text != nullptr) continue;
    TRY_ASSIGN(const std::vector<TokenId> of_file, media.add(file++));
    add(of_file);
  }
  if (!all.empty() && is_media_id(all.back())) return no_text_after_media();
  Prompt prompt = of_ids(std::move(all));
  prompt.media = media.take();
  return prompt;
}

Result<Prompt> as_rendered(const Service& service, chat::RenderInput input, const Asking& asking) {
  PromptFiles media(service, input.media.files, asking.tenant, asking.gone);
  TRY_ASSIGN(chat::RenderedPrompt rendered,
             chat::render_prompt(*service.chat_template, *service.markers, std::move(input)));
  std::size_t text_bytes = 0;
  std::size_t marker_tokens = 0;
  std::vector<std::size_t> numbers;
  for (const chat::PromptSpan& span : rendered.spans) {
    if (span.kind == chat::SpanKind::kMarker)
      ++marker_tokens;
    else
      text_bytes += span.text.size();
    if (span.kind == chat::SpanKind::kMedia) numbers.push_back(span.number);
  }
  const std::size_t least = marker_tokens + least_tokens(service, text_bytes);
  if (asking.counting == Counting::kWhereItFits) {
    if (auto refused = too_long(service, text_bytes, least)) return *std::move(refused);
  }
  TRY_ASSIGN(std::optional<Prompt> refused, plan_files(service, media, numbers, asking.counting));
  if (refused) return *std::move(refused);
  TRY_ASSIGN(std::vector<TokenId> ids, chat::tokenize_prompt(
                                           *service.vocabulary, *service.markers, rendered,
                                           [&](std::string_view text) { return tokenize_piece(service, text, asking); },
                                           [&](std::size_t number) { return media.add(number); }));
  if (!ids.empty() && is_media_id(ids.back())) return no_text_after_media();
  Prompt prompt = of_ids(std::move(ids));
  media.note_ids(rendered);
  prompt.parts = parts_of(service, rendered, prompt.ids);
  prompt.media = media.take();
  prompt.thinking_open = chat::tools::thinking_is_open(service.reply_format, rendered);
  return prompt;
}

Result<Prompt> of_chat(const Service& service, chat::RenderInput& input, const Asking& asking) {
  chat::stabilize(service.stabilizers, input);
  for (nlohmann::ordered_json& tool : input.tools) service.key_orders->settle(tool, asking.tenant);
  input.local_time_s = os::local_time_s(service.clock->wall_ns());
  const bool replays = may_replay(service, input);
  if (!replays && asking.messages == MessagesAfter::kGone) return as_rendered(service, std::move(input), asking);
  TRY_ASSIGN(Prompt prompt, as_rendered(service, input, asking));
  if (!replays || prompt.ids.empty()) return prompt;
  const auto render = [&](chat::RenderInput changed) { return as_rendered(service, std::move(changed), asking); };
  return replay_sampled(service, input, std::move(prompt), render, asking.tenant);
}

// Another prompt may have another picture there, or go on otherwise after the same one.
void add_media_ends(TokenSpan prompt, std::vector<Position>& ends) {
  const auto runs = media_runs(prompt);
  if (!runs) return;
  for (const MediaRun& run : *runs) {
    if (run.range.begin > Position{}) ends.push_back(run.range.begin);
    ends.push_back(run.range.end);
  }
}

std::vector<chat::MediaFile*> files_of(api::PromptSource& source) {
  std::vector<chat::MediaFile*> files;
  if (auto* chat = std::get_if<chat::RenderInput>(&source)) {
    for (chat::MediaFile& file : chat->media.files) files.push_back(&file);
  }
  if (auto* mixed = std::get_if<api::MixedPrompt>(&source)) {
    for (auto& part : *mixed) {
      if (auto* file = std::get_if<chat::MediaFile>(&part)) files.push_back(file);
    }
  }
  return files;
}

Result<Prompt> read_settled(const Service& service, api::PromptSource& source, const Asking& asking) {
  if (auto* ids = std::get_if<std::vector<TokenId>>(&source)) return of_ids(std::move(*ids));
  if (const auto* text = std::get_if<std::string>(&source)) return of_text(service, *text, asking);
  if (const auto* mixed = std::get_if<api::MixedPrompt>(&source)) return of_mixed(service, *mixed, asking);
  if (const auto* fill = std::get_if<api::FillIn>(&source)) return of_fill(service, *fill, asking);
  return of_chat(service, std::get<chat::RenderInput>(source), asking);
}

}  // namespace

Result<Prompt> read_prompt(const Service& service, api::PromptSource& source, const Tenant& tenant,
                           const std::function<bool()>& gone, Counting counting, MessagesAfter messages,
                           std::optional<std::int64_t> max_tokens) {
  const std::vector<chat::MediaFile*> files = files_of(source);
  TRY(settle_files(service, files, gone));
  Result<Prompt> prompt = read_settled(service, source, {tenant, gone, counting, messages, max_tokens});
  // Messages that stay are rendered once more when the reply has ended, and then the files' rows are known.
  for (chat::MediaFile* const file : files_of(source)) file->bytes.reset();
  return prompt;
}

policy::PromptMarkers markers_of(TokenSpan prompt, const chat::TurnOpenings& openings) {
  chat::PromptTurns turns = chat::find_turns(prompt, openings);
  policy::PromptMarkers markers;
  std::ranges::merge(turns.user, turns.assistant, std::back_inserter(markers.message_ends));
  std::ranges::copy(turns.tool_results, std::back_inserter(markers.message_ends));
  add_media_ends(prompt, markers.message_ends);
  std::ranges::sort(markers.message_ends);
  const auto twice = std::ranges::unique(markers.message_ends);
  markers.message_ends.erase(twice.begin(), twice.end());
  if (turns.stable_end < Position{} + prompt.size()) {
    markers.generation_prompt = turns.stable_end;
    turns.assistant.pop_back();
  }
  markers.beginning = Position{} + chat::beginning_size(prompt, openings);
  markers.user_turns = std::move(turns.user);
  markers.assistant_turns = std::move(turns.assistant);
  return markers;
}

}  // namespace kvkeep::server
