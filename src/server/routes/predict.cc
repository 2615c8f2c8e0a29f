// POST /predict of Google's Vertex AI: each instance is handled as a request of its own, all at the same time, and one
// reply has their results.

#include "server/api/predict.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/api/errors.h"
#include "server/routes/generation.h"
#include "server/routes/reply_room.h"
#include "server/routes/routes.h"

namespace kvkeep::server {
namespace {

// Gathers the results, and sends them when the last one is there. Thread safe.
class Predictions : public std::enable_shared_from_this<Predictions> {
 public:
  Predictions(std::shared_ptr<ResponseWriter> writer, std::size_t count)
      : writer_(std::move(writer)), results_(count), missing_(count) {}

  ResponseWriter& writer() const { return *writer_; }
  void add(std::size_t number, std::string result) {
    const MutexLock lock(mutex_);
    results_[number] = std::move(result);
    if (--missing_ == 0) send_soon();
  }
  void send_soon() {
    writer_->post([self = shared_from_this()] { self->send(); });
  }

 private:
  void send() {
    const MutexLock lock(mutex_);
    writer_->send(200, api::kJsonContentType, api::predict_reply(results_));
  }

  const std::shared_ptr<ResponseWriter> writer_;
  Mutex mutex_;
  std::vector<std::string> results_ GUARDED_BY(mutex_);
  std::size_t missing_ GUARDED_BY(mutex_);
};

// One instance in the hands of its path's handler. Its status is lost: an error's body has it, too.
class InstanceExchange final : public ResponseWriter, public std::enable_shared_from_this<InstanceExchange> {
 public:
  InstanceExchange(std::shared_ptr<Predictions> all, std::size_t number, HttpRequest request)
      : all_(std::move(all)), number_(number), request_(std::move(request)) {}
  ~InstanceExchange() override {
    if (!started_) add(api::error_reply(io_error("the request was abandoned")).body);
  }
  InstanceExchange(const InstanceExchange&) = delete;
  InstanceExchange& operator=(const InstanceExchange&) = delete;

  void run(const Handler& handler) { handler(request_, *this); }

  void send(int /*status*/, std::string_view /*content_type*/, std::string body,
            const HeaderList& /*headers*/) override {
    add(std::move(body));
  }
  // All results are one text, so that the memory for an instance's has a bound.
  void send_pieces(int /*status*/, std::string_view /*content_type*/, BodyPieces next,
                   const HeaderList& /*headers*/) override {
    std::string body;
    for (std::string piece = next(); !piece.empty(); piece = next()) {
      body += piece;
      if (body.size() <= kMostKeptBytes) continue;
      return add(api::error_reply(invalid("the reply is longer than 64 MiB: ask for it at its own path")).body);
    }
    add(std::move(body));
  }
  // No instance asks for a stream (api::parse_predict).
  bool begin_stream(int /*status*/, std::string_view /*content_type*/, const HeaderList& /*headers*/) override {
    return false;
  }
  bool write(std::string_view /*piece*/) override { return false; }
  void end() override {}
  bool started() const override { return started_; }
  std::shared_ptr<ResponseWriter> keep() override { return shared_from_this(); }
  bool client_gone() const override { return all_->writer().client_gone(); }
  void post(std::function<void()> task) override {
    all_->writer().post([self = shared_from_this(), work = std::move(task)] { work(); });
  }
  void post_work(std::function<void()> task) override {
    all_->writer().post_work([self = shared_from_this(), work = std::move(task)] { work(); });
  }
  void on_silence(std::int64_t /*silence_ms*/, std::function<void()> /*task*/) override {}

 private:
  void add(std::string result) {
    started_ = true;
    all_->add(number_, std::move(result));
  }

  const std::shared_ptr<Predictions> all_;
  const std::size_t number_;
  HttpRequest request_;
  bool started_ = false;
};

// The instance as a request: of the same sender, who has shown a key for all of them.
HttpRequest request_of(const HttpRequest& http, api::PredictInstance instance) {
  HttpRequest request;
  request.method = http.method;
  request.path = std::string(instance.path);
  request.body = std::move(instance.body);
  request.headers = http.headers;
  request.remote_address = http.remote_address;
  request.id = http.id;
  request.client_gone = http.client_gone;
  request.stopping = http.stopping;
  return request;
}

void predict(const HttpServer& server, HttpRequest& http, ResponseWriter& writer) {
  Result<std::vector<api::PredictInstance>> instances = api::parse_predict(std::exchange(http.body, {}));
  if (!instances) return send_error(writer, api::error_reply(instances.error()));
  const auto all = std::make_shared<Predictions>(writer.keep(), instances->size());
  if (instances->empty()) return all->send_soon();
  for (std::size_t i = 0; i < instances->size(); ++i) {
    api::PredictInstance& instance = (*instances)[i];
    if (instance.error) {
      all->add(i, api::error_reply(*instance.error).body);
      continue;
    }
    const Handler* handler = server.handler("POST", instance.path);
    const auto exchange = std::make_shared<InstanceExchange>(all, i, request_of(http, std::move(instance)));
    if (handler != nullptr) exchange->run(*handler);
  }
}

}  // namespace

void add_predict_routes(HttpServer& server, const Service& service) {
  const auto& vertex = service.endpoints.vertex;
  if (!vertex) return;
  server.route("POST", vertex->predict,
               [&server](HttpRequest& http, ResponseWriter& writer) { predict(server, http, writer); });
  if (server.handler("GET", vertex->health) != nullptr) return;
  server.route("GET", vertex->health,
               [&service](HttpRequest& http, ResponseWriter& writer) { show_health(service, http, writer); },
               {.is_public = true, .is_light = true});
}

}  // namespace kvkeep::server
