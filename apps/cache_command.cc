#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "cache_place.h"
#include "cache_setup.h"
#include "chat/chat_template.h"
#include "chat/turns.h"
#include "commands.h"
#include "engine/llama/llama_vocabulary.h"
#include "inspect/print/print.h"
#include "inspect/verify.h"
#include "inspect/view.h"
#include "os/clock.h"
#include "os/machine.h"
#include "os/paths.h"
#include "os/process.h"
#include "os/threads.h"
#include "output.h"
#include "share_report.h"

namespace kvkeep::cli {
namespace {

constexpr std::size_t kColumns = 120;
// Reading from the page cache and summing keeps a processor busy; a disk is kept busy by a few requests at a time.
constexpr unsigned kMostReaders = 4;
// How long verify waits, while servers run, for a file that seems to be an orphan: ten seconds in all.
constexpr std::chrono::milliseconds kPause{500};
constexpr int kMostPauses = 20;
constexpr std::int64_t kShareNs = 5'000'000'000;  // for one answer of a shared tier

// The model file that the server's note names. The note is believed only if no other user could have written it, and
// only if it names a regular file: opening a pipe would wait for ever.
Result<std::string> noted_file(const inspect::ModelDirectory& model) {
  if (!model.note || !model.note->path.starts_with('/')) return not_found("the model's file is not known");
  TRY_ASSIGN(const bool own, os::is_own(model.path + "/" + std::string(store::kModelNoteName)));
  TRY_ASSIGN(const std::uint32_t mode, os::permissions(model.path));
  if (!own || (mode & os::kOthersMayWrite) != 0) return invalid("other users may write the note in " + model.path + "");
  TRY_ASSIGN(std::string file, os::resolve_links(model.note->path));
  TRY_ASSIGN(const auto opened, os::real_file_system().open(file));
  return file;
}

// Loads the vocabulary that turns ids into text: from --gguf, or else from the file that the server noted.
Result<std::unique_ptr<engine::llama::LlamaVocabulary>> vocabulary_of(const CacheCommandOptions& options,
                                                                      const inspect::ModelDirectory& model) {
  const Result<std::string> path = options.gguf.empty() ? noted_file(model) : options.gguf;
  const auto hint = [](const Error& error) {
    return Error{error.kind, error.message + "; name the model's file with --gguf FILE, or print --ids"};
  };
  if (!path) return hint(path.error());
  auto loaded = engine::llama::LlamaVocabulary::load(*path);
  if (!loaded) return hint(loaded.error());
  return loaded;
}

bool knows(const Vocabulary& vocabulary, TokenSpan ids) {
  return std::ranges::all_of(
      ids, [&](TokenId id) { return is_media_id(id) || static_cast<std::size_t>(id) < vocabulary.size(); });
}

// Enough for the words of a line.
constexpr std::size_t kTokensOfWords = 40;

// Shows stored ids by a few words that tell conversations apart: the last user message that begins in them, or else
// their beginning. Turns are found if the model was served with its own chat template.
class LineWords {
 public:
  explicit LineWords(std::unique_ptr<engine::llama::LlamaVocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)), markers_(*vocabulary_, vocabulary_->chat_template()) {
    const auto spelling = [&](std::optional<TokenId> id) { return id ? vocabulary_->piece(*id, true) : std::string(); };
    const auto made = chat::make_chat_template(vocabulary_->chat_template(),
                                               {spelling(vocabulary_->bos()), spelling(vocabulary_->eos())});
    if (made) openings_ = chat::learn_turn_openings(**made, markers_, *vocabulary_);
  }

  std::string of(TokenSpan ids) const {
    if (!knows(*vocabulary_, ids)) return {};
    std::string text;
    for (TokenSpan rest = chat::from_last_user_text(ids, openings_); !rest.empty();) {
      const auto marker = std::ranges::find_if(rest, [&](TokenId id) { return markers_.contains(id); });
      const TokenSpan piece = rest.first(static_cast<std::size_t>(marker - rest.begin()));
      const std::string words = words_of(piece);
      if (!text.empty() && !words.empty()) text += ' ';
      text += words;
      // People know a picture by the words after it.
      const bool is_media = std::ranges::all_of(piece, is_media_id);
      const bool ends = marker == rest.end() || vocabulary_->is_end_of_generation(*marker);
      if (!text.empty() && (!is_media || ends)) break;
      rest = rest.subspan(std::min(piece.size() + 1, rest.size()));
    }
    return text;
  }

 private:
  // The ids of a large picture are one word.
  std::string words_of(TokenSpan piece) const {
    const auto text_begin = std::ranges::find_if_not(piece, is_media_id);
    const auto most =
        std::min<std::size_t>(static_cast<std::size_t>(text_begin - piece.begin()) + kTokensOfWords, piece.size());
    std::string text = vocabulary_->text_of(piece.first(most), true);
    text.erase(0, text.find_first_not_of(" \t\r\n"));
    return text;
  }

  const std::unique_ptr<engine::llama::LlamaVocabulary> vocabulary_;
  const chat::MarkerSet markers_;
  chat::TurnOpenings openings_;
};

Result<int> show_models(const CacheCommandOptions& options, const inspect::Forest& forest) {
  const bool list = options.action == CacheAction::kList;
  std::map<FingerprintHash, LineWords> vocabularies;
  for (const inspect::ModelDirectory& model : forest.directory.models) {
    if (!list) break;
    auto loaded = vocabulary_of(options, model);
    if (!loaded && !options.gguf.empty()) return loaded.error();
    if (loaded) vocabularies.try_emplace(model.fingerprint, std::move(*loaded));
  }
  inspect::ViewOptions shown;
  shown.now_ns = os::real_clock().wall_ns();
  // A running server's budget is not stored on disk, and a guess would be taken for it.
  shown.budget = options.tiers.disk_budget;
  shown.order = options.order;
  shown.most_depth = options.most_depth;
  shown.most_runs = list ? options.most_runs : 0;
  shown.words = [&](const inspect::ModelDirectory& model, TokenSpan ids) {
    const auto found = vocabularies.find(model.fingerprint);
    return found == vocabularies.end() ? std::string() : found->second.of(ids);
  };
  const inspect::CacheView view = inspect::view_of(forest, shown);
  if (list) {
    print(options.json ? inspect::list_json(view) : inspect::list_text(view, kColumns));
  } else {
    print(options.json ? inspect::stat_json(view) : inspect::stat_text(view));
  }
  return 0;
}

Result<int> show_no_cache(const CacheCommandOptions& options) {
  TRY_ASSIGN(const std::string directory, disk_directory(options.tiers));
  inspect::CacheDirectory none;
  none.root = directory;
  if (options.json) return show_models(options, inspect::plant(std::move(none)));
  print(fmt::format("{}: nothing is stored yet; kvkeep serve makes this directory\n", directory));
  return 0;
}

// Every node answers, or the error says which one does not.
Result<int> show_share(const CacheCommandOptions& options) {
  os::Clock& clock = os::real_clock();
  const auto deadline_ns = [&clock] { return clock.monotonic_ns() + kShareNs; };
  TRY_ASSIGN(const std::unique_ptr<share::ObjectEngine> engine,
             open_engine(options.share, clock, share::EngineUse::kLook));
  for (std::uint32_t node = 0; node < engine->nodes(); ++node) {
    const Status well = engine->probe(share::NodeId{node}, deadline_ns());
    if (!well) return Error{well.error().kind, engine->node_address(share::NodeId{node}) + ": " + well.error().message};
  }
  ShareReport report{.address = engine->address(), .answer_ms = 0, .facts = {}};
  TRY_ASSIGN(report.facts, engine->facts(deadline_ns()));
  // A name that no server gives to an object.
  const share::ObjectName absent{.space = std::string(16, '0'), .id = std::string(32, '0')};
  const std::int64_t begin_ns = clock.monotonic_ns();
  (void)engine->heads({absent}, 1, deadline_ns());
  report.answer_ms = os::elapsed_ms(begin_ns, clock.monotonic_ns());
  print(options.json ? share_json(report) : share_text(report));
  return 0;
}

Result<int> show_prefix(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(const inspect::Forest forest, read_cache(options, root));
  TRY_ASSIGN(const auto targets, find_ids(forest, options.words));
  inspect::ViewOptions shown;
  shown.now_ns = os::real_clock().wall_ns();
  const inspect::PrefixView view = inspect::view_of_prefix(forest, targets.front(), shown);
  std::optional<std::string> text;
  if (options.with_text) {
    TRY_ASSIGN(const std::unique_ptr<Vocabulary> vocabulary,
               vocabulary_of(options, forest.directory.models[targets.front().model]));
    if (!knows(*vocabulary, view.ids)) return invalid("the model's file has another vocabulary than this prefix");
    text = vocabulary->text_of(view.ids, true);
    // A prompt may hold commands to a terminal: make it harmless there. A file gets the text unchanged.
    if (os::output_goes_to_a_terminal()) text = inspect::harmless(*text);
  }
  print(options.json ? inspect::show_json(view, options.with_ids, text)
                     : inspect::show_text(view, shown.now_ns, options.with_ids, text));
  return 0;
}

Result<int> verify(const CacheCommandOptions& options, const std::string& root) {
  os::FileSystem& files = os::real_file_system();
  os::Clock& clock = os::real_clock();
  TRY_ASSIGN(const inspect::CacheDirectory directory, inspect::find_models(files, root));
  std::vector<std::unique_ptr<os::Executor>> threads;
  std::vector<os::Executor*> readers;
  for (unsigned i = 0; i < std::clamp(os::core_count(), 1U, kMostReaders); ++i) {
    threads.push_back(os::make_thread_executor("verify"));
    readers.push_back(threads.back().get());
  }
  const std::int64_t began_ns = clock.monotonic_ns();
  auto bar = std::make_unique<Bar>();
  const auto progress = [&](ByteCount done, ByteCount total) { bar->show(done, total); };
  // A server looks once a second at what others did, and the server that keeps the budget goes first.
  const auto wait = [&directory, pauses = 0]() mutable {
    if (directory.servers == 0 || ++pauses > kMostPauses) return false;
    os::pause(kPause);
    return true;
  };
  TRY_ASSIGN(const inspect::VerifyReport report, inspect::verify(files, directory, readers, progress, wait));
  const double seconds = os::elapsed_ms(began_ns, clock.monotonic_ns()) / 1e3;
  bar.reset();
  std::optional<inspect::RepairReport> repaired;
  if (options.repair) {
    TRY_ASSIGN(const ByteCount budget, cache_budget(options, root));
    TRY_ASSIGN(repaired, inspect::repair(files, clock, directory, budget, report.findings));
    const auto lock = hold_cache(root);
    if (lock && *lock == nullptr) tell_servers(root);
  }
  print(options.json ? inspect::verify_json(report, repaired, seconds)
                     : inspect::verify_text(report, repaired, seconds));
  return report.clean() ? 0 : 1;
}

}  // namespace

Result<int> run_cache(const CacheCommandOptions& options) {
  if (!options.share.empty()) return show_share(options);
  // Only import may make a new cache directory.
  bool made = false;
  if (options.action == CacheAction::kImport) {
    TRY_ASSIGN(made, make_cache(options));
  }
  const bool looks = options.action == CacheAction::kStat || options.action == CacheAction::kList;
  const auto found = cache_root(options);
  // On a machine that served nothing yet, show an empty cache. Another directory must exist: its name may be wrong.
  if (!found && found.error().kind == ErrorKind::kNotFound && looks && options.directory_is_servers) {
    return show_no_cache(options);
  }
  if (!found) return found.error();
  const std::string& root = *found;
  switch (options.action) {
    case CacheAction::kStat:
    case CacheAction::kList: {
      TRY_ASSIGN(const inspect::Forest forest, read_cache(options, root));
      return show_models(options, forest);
    }
    case CacheAction::kShow: return show_prefix(options, root);
    case CacheAction::kVerify: return verify(options, root);
    case CacheAction::kCollect: return run_cache_collect(options, root);
    case CacheAction::kRemove: return run_cache_remove(options, root);
    case CacheAction::kPin:
    case CacheAction::kUnpin: return run_cache_pins(options, root);
    case CacheAction::kExport: return run_cache_export(options, root);
    case CacheAction::kImport: {
      const auto imported = run_cache_import(options, root);
      if (!imported && made) unmake_cache(root);
      return imported;
    }
  }
  return 1;
}

}  // namespace kvkeep::cli
