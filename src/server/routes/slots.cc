// POST /slots/ID?action=...: a conversation is saved as its token ids. Its state lies in the cache, which keeps it for
// a day; restoring it reads what the cache still has and computes the rest, so that the next prompt that goes on from
// there finds all of it in the model's memory. A file is its tenant's: to others it is as if it were not there.

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "server/api/errors.h"
#include "server/api/slot_action.h"
#include "server/routes/generation.h"
#include "server/routes/prompt.h"
#include "server/routes/routes.h"
#include "server/routes/sender.h"
#include "server/run/orders.h"
#include "store/small_files.h"

namespace kvkeep::server {
namespace {

using api::SlotAction;

// Carries one action from thread to thread until it is answered.
class SlotExchange final : public SlotSink, public JobSink, public std::enable_shared_from_this<SlotExchange> {
 public:
  SlotExchange(const Service& service, SlotAction action, const HttpRequest& http,
               std::shared_ptr<ResponseWriter> writer)
      : service_(service),
        action_(std::move(action)),
        adapters_(service.adapters->for_job()),
        tenant_(tenant_of(service, http, action_.cache_salt, adapters_)),
        files_of_(api::slot_owner(tenant_of(service, http, action_.cache_salt))),
        client_(client_of(http, tenant_)),
        key_(key_of(service, http)),
        owner_(sender_of(service, http)),
        session_(session_of(service, http, {}, tenant_)),
        writer_(std::move(writer)),
        begin_ns_(service.clock->monotonic_ns()) {}

  void begin() {
    if (action_.kind == SlotAction::Kind::kRestore) return on_disk([](SlotExchange& self) { self.load(); });
    const bool saves = action_.kind == SlotAction::Kind::kSave;
    const SlotOrder order{saves ? SlotOrder::Kind::kKeep : SlotOrder::Kind::kForget, action_.slot, tenant_};
    check(server::order(*service_.scheduler, order, shared_from_this()));
  }

  void on_outcome(Result<SlotOutcome> outcome) override {
    if (!outcome) return check(outcome.error());
    if (action_.kind == SlotAction::Kind::kErase) return reply(api::erase_reply(action_, outcome->forgotten));
    const TokenSpan savable = api::savable(outcome->tokens);
    tokens_.assign(savable.begin(), savable.end());
    on_disk([](SlotExchange& self) { self.save(); });
  }

  void on_prefill(const JobStats& /*stats*/, std::size_t /*processed*/, double /*elapsed_ms*/) override {}
  bool on_token(TokenId /*token*/, const JobStats& /*stats*/) override { return false; }
  void on_done(Finish /*finish*/, const JobStats& /*stats*/, const std::optional<Error>& error) override {
    if (error) return check(*error);
    reply(api::restore_reply(action_, tokens_.size(), bytes_, ms()));
  }
  bool gone() const override { return writer_->client_gone(); }

 private:
  std::string directory() const { return service_.slot_files->directory + (files_of_.empty() ? "" : "/") + files_of_; }
  std::string path() const { return directory() + "/" + action_.file_name; }
  double ms() const { return os::elapsed_ms(begin_ns_, service_.clock->monotonic_ns()); }

  void on_disk(void (*task)(SlotExchange&)) {
    service_.slot_files->executor->post([self = shared_from_this(), task] { task(*self); });
  }

  void save() {
    os::FileSystem& files = *service_.slot_files->files;
    const std::string text = api::saved_slot(service_.fingerprint, files_of_, tokens_);
    Status written = files_of_.empty() ? Status() : files.make_directories(directory());
    if (written) written = store::replace_small_file(files, path(), text, store::Syncing::kDurable);
    if (!written) return check(written);
    reply(api::save_reply(action_, tokens_.size(), text.size(), ms()));
  }

  void refuse(const Error& error) {
    check(Error{ErrorKind::kInvalid, fmt::format("{}: {}", action_.file_name, error.message)});
  }

  Result<std::string> read() const {
    Result<std::string> file = store::read_start(*service_.slot_files->files, path(), api::kLongestSavedSlot);
    if (!file && file.error().kind == ErrorKind::kNotFound) return api::no_saved_slot();
    return file;
  }

  // A request without a salt may have the file of a former version, which any tenant may have saved, if the cache shows
  // that requests without a salt computed all of this text.
  bool is_own(const api::SavedSlot& slot) const {
    return slot.names_owner || service_.cache->stored(slot.tokens, tenant_).rows.value() >= slot.tokens.size();
  }

  void load() {
    Result<std::string> file = read();
    if (!file) return refuse(file.error());
    bytes_ = file->size();
    Result<api::SavedSlot> slot = api::read_saved_slot(*std::move(file), service_.fingerprint, files_of_,
                                                       service_.vocabulary->size(), service_.context_tokens);
    if (!slot) return refuse(slot.error());
    if (!is_own(*slot)) {
      return refuse(
          invalid("a former version saved it and did not note whose it is, and its text is not in the cache of "
                  "requests without "
                  "a cache_salt: send the conversation again, and save it anew"));
    }
    tokens_ = std::move(slot->tokens);
    if (tokens_.empty()) return reply(api::restore_reply(action_, 0, bytes_, ms()));
    Job job;
    job.id = reply_header(service_, "slot-").id;
    job.kind = "restore";
    job.prompt = tokens_;
    job.max_tokens = 0;
    job.adapters = adapters_;
    job.tenant = tenant_;
    job.client = client_;
    job.key = key_;
    job.owner = owner_;
    job.session = session_;
    job.place = action_.slot;
    job.markers = markers_of(job.prompt, service_.turn_openings);
    check(service_.scheduler->submit(std::move(job), shared_from_this()));
  }

  void check(const Status& status) {
    if (status) return;
    // A full disk is no fault of the request.
    const bool is_full = status.error().kind == ErrorKind::kNoSpace;
    writer_->post([self = shared_from_this(), error = is_full ? busy(status.error().message) : status.error()] {
      send_error(*self->writer_, api::error_reply(error));
    });
  }
  void reply(std::string body) {
    writer_->post([self = shared_from_this(), sent = std::move(body)]() mutable {
      self->writer_->send(200, api::kJsonContentType, std::move(sent));
    });
  }

  const Service& service_;
  const SlotAction action_;
  const engine::AdapterScales adapters_;
  const Tenant tenant_;
  const std::string files_of_;  // api::slot_owner() of the client, whatever the adapters' scales
  const std::uint64_t client_;
  const std::uint64_t key_;
  const std::uint64_t owner_;
  const std::uint64_t session_;
  const std::shared_ptr<ResponseWriter> writer_;
  const std::int64_t begin_ns_;
  std::vector<TokenId> tokens_;
  std::size_t bytes_ = 0;
};

void act_on_slot(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  if (!service.slot_files) {
    return send_error(writer, api::error_reply(unsupported("This server does not support slots action. Start it with "
                                                           "`--slot-save-path`")));
  }
  const std::string id = http.path.substr(http.path.rfind('/') + 1);
  Result<SlotAction> action =
      api::parse_slot_action(id, http.parameter("action"), std::exchange(http.body, {}), service.parallel);
  if (!action) return send_error(writer, api::error_reply(action.error()));
  std::make_shared<SlotExchange>(service, *std::move(action), http, writer.keep())->begin();
}

}  // namespace

void add_slot_routes(HttpServer& server, const Service& service) {
  server.route("POST", "/slots/*",
               [&service](HttpRequest& http, ResponseWriter& writer) { act_on_slot(service, http, writer); });
}

}  // namespace kvkeep::server
