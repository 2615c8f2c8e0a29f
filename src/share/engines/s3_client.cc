#include "share/engines/s3_client.h"

#ifdef KVKEEP_HAS_CURL
#include <curl/curl.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace kvkeep::share {

Status s3_status(long http_status) {
  const std::string text = "HTTP status " + std::to_string(http_status);
  switch (http_status) {
    case 200:
    case 204:
    case 206: return {};
    case 404:
    case 416:  // shorter than the range
      return not_found(text);
    case 301:
    case 302:
    case 307:
    case 308: return invalid(text + ": the bucket lies elsewhere: set region= or endpoint= in the URL");
    case 400:
    case 401:
    case 403:
      return invalid(text +
                     ": wrong keys, region or bucket, a clock that differs by minutes, or a right is missing "
                     "(get, put, delete and list)");
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: return busy(text);
    case 507: return no_space(text);
    default: return damaged(text);
  }
}

#ifdef KVKEEP_HAS_CURL

namespace {

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Multi = std::unique_ptr<CURLM, FreeMulti>;

// One request under way. libcurl holds pointers to it, so it stays where it is.
class Exchange {
 public:
  Exchange(const S3Access& access, const S3Request& request, os::Clock& clock, long left_ms)
      : request_(request), clock_(clock), moved_ns_(clock.monotonic_ns()) {
    std::string url = access.endpoint + '/' + access.bucket + '/' + request.key;
    if (!request.query.empty()) url += '?' + request.query;
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TIMEOUT_MS, left_ms);
    set(CURLOPT_TCP_NODELAY, 1L);
    if (!access.ca_file.empty()) set(CURLOPT_CAINFO, access.ca_file.c_str());
    sign(access);
    set(CURLOPT_WRITEFUNCTION, &Exchange::take_bytes);
    set(CURLOPT_WRITEDATA, this);
    set_method();
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  CURL* easy() { return easy_.get(); }
  // When the last byte came or went, or it began.
  std::int64_t moved_ns() const { return moved_ns_; }

  S3Response finish(CURLcode code) {
    S3Response response{.received = received_};
    long status = 0;
    curl_off_t modified = -1;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy_.get(), CURLINFO_FILETIME_T, &modified);
    response.modified_s = modified;
    // A server that ignores the range sends all: the transfer is stopped when the buffer is full.
    const bool has_enough = code == CURLE_WRITE_ERROR && received_ == request_.out.size() && !request_.out.empty();
    if (code != CURLE_OK && !has_enough) {
      response.status = io_error(curl_easy_strerror(code));
    } else {
      response.status = s3_status(status);
    }
    return response;
  }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    KVKEEP_ASSERT(curl_easy_setopt(easy_.get(), option, value) == CURLE_OK, "libcurl knows its options");
  }

  void add_header(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
    KVKEEP_ASSERT(longer != nullptr, "there is memory for a header");
    (void)headers_.release();
    headers_.reset(longer);
  }

  void sign(const S3Access& access) {
    if (!access.access_key.empty()) {
      set(CURLOPT_AWS_SIGV4, ("aws:amz:" + access.region + ":s3").c_str());
      set(CURLOPT_USERNAME, access.access_key.c_str());
      set(CURLOPT_PASSWORD, access.secret_key.c_str());
      // libcurl would sign the sum of nothing. The body has codes of its own.
      add_header("x-amz-content-sha256: UNSIGNED-PAYLOAD");
      if (!access.session_token.empty()) add_header("x-amz-security-token: " + access.session_token);
    }
    for (const std::string& line : request_.headers) add_header(line);
    if (headers_) set(CURLOPT_HTTPHEADER, headers_.get());
  }

  void set_method() {
    switch (request_.method) {
      case S3Request::Method::kGet: {
        const std::string range =
            std::to_string(request_.first) + '-' + std::to_string(request_.first + request_.out.size() - 1);
        if (!request_.out.empty() && request_.query.empty()) set(CURLOPT_RANGE, range.c_str());
        return;
      }
      case S3Request::Method::kHead:
        set(CURLOPT_NOBODY, 1L);
        set(CURLOPT_FILETIME, 1L);
        return;
      case S3Request::Method::kDelete: set(CURLOPT_CUSTOMREQUEST, "DELETE"); return;
      case S3Request::Method::kPut: {
        curl_off_t size = 0;
        for (const ByteSpan part : request_.body) size += static_cast<curl_off_t>(part.size());
        set(CURLOPT_UPLOAD, 1L);
        set(CURLOPT_INFILESIZE_LARGE, size);
        set(CURLOPT_READFUNCTION, &Exchange::give_bytes);
        set(CURLOPT_READDATA, this);
        // To remove the header that asks for leave first would make the signature wrong.
        set(CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
        return;
      }
    }
  }

  static std::size_t take_bytes(char* bytes, std::size_t, std::size_t count, void* self) {
    return static_cast<Exchange*>(self)->take(std::as_bytes(std::span(bytes, count)));
  }
  std::size_t take(ByteSpan bytes) {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    const bool is_whole = status == 200;
    if (request_.method != S3Request::Method::kGet || (status != 206 && !is_whole)) return bytes.size();
    if (is_whole && request_.first > 0) return bytes.size();  // nothing is received: a miss
    const std::size_t fits = std::min(bytes.size(), request_.out.size() - received_);
    std::ranges::copy(bytes.first(fits), request_.out.subspan(received_).begin());
    received_ += fits;
    if (request_.arrived) request_.arrived(received_);
    moved_ns_ = clock_.monotonic_ns();
    return fits == bytes.size() ? bytes.size() : 0;
  }

  static std::size_t give_bytes(char* out, std::size_t, std::size_t room, void* self) {
    return static_cast<Exchange*>(self)->give(std::as_writable_bytes(std::span(out, room)));
  }
  std::size_t give(MutableByteSpan out) {
    while (part_ < request_.body.size() && part_at_ == request_.body[part_].size()) {
      ++part_;
      part_at_ = 0;
    }
    if (part_ == request_.body.size()) return 0;
    const ByteSpan left = request_.body[part_].subspan(part_at_);
    const std::size_t count = std::min(left.size(), out.size());
    std::ranges::copy(left.first(count), out.begin());
    part_at_ += count;
    moved_ns_ = clock_.monotonic_ns();
    return count;
  }

  const S3Request& request_;
  os::Clock& clock_;
  std::int64_t moved_ns_;
  std::unique_ptr<CURL, FreeEasy> easy_{curl_easy_init()};
  std::unique_ptr<curl_slist, FreeList> headers_;
  std::size_t received_ = 0;
  std::size_t part_ = 0;
  std::size_t part_at_ = 0;
};

// Requests that are under way together. A packet that was lost costs its connection a fifth of a second or more, and
// one of those that connect a second: too long for a look-up, while other connections are free again.
class Batch {
 public:
  Batch(const S3Access& access, const std::vector<S3Request>& requests, CURLM* multi, os::Clock& clock,
        const TransferLimits& limits)
      : access_(access),
        requests_(requests),
        multi_(multi),
        clock_(clock),
        begin_ns_(clock.monotonic_ns()),
        limits_(limits),
        exchanges_(requests.size()),
        responses_(requests.size(), {.status = io_error("no answer in time")}) {
    for (std::size_t i = 0; i < requests.size(); ++i) send(i);
  }
  ~Batch() {
    for (std::size_t i = 0; i < exchanges_.size(); ++i) withdraw(i);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  std::vector<S3Response> run() {
    int running = 1;
    while (running > 0) {
      if (curl_multi_perform(multi_, &running) != CURLM_OK) break;
      collect();
      if (running > 0 && is_late()) {
        send_again();
        continue;
      }
      if (running == 0) break;
      int ready = 0;
      curl_multi_poll(multi_, nullptr, 0, wait_ms(), &ready);
      if (clock_.monotonic_ns() >= limits_.end_ns() || (ready == 0 && !end_silent())) break;
    }
    return std::move(responses_);
  }

 private:
  void send(std::size_t place) {
    const std::int64_t left_ms = (limits_.deadline_ns - clock_.monotonic_ns()) / 1'000'000;
    exchanges_[place] = std::make_unique<Exchange>(access_, requests_[place], clock_,
                                                   std::max(static_cast<long>(left_ms), 1L));  // 0 would be for ever
    curl_multi_add_handle(multi_, exchanges_[place]->easy());
  }
  void withdraw(std::size_t place) {
    if (exchanges_[place] == nullptr) return;
    curl_multi_remove_handle(multi_, exchanges_[place]->easy());
    exchanges_[place].reset();
  }
  void collect() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      const auto is_it = [&](const auto& one) { return one != nullptr && one->easy() == message->easy_handle; };
      const auto place = static_cast<std::size_t>(std::ranges::find_if(exchanges_, is_it) - exchanges_.begin());
      responses_[place] = exchanges_[place]->finish(message->data.result);
      withdraw(place);
      if (++ended_ * 2 < requests_.size() || late_ns_ != 0) continue;
      const std::int64_t half_ns = clock_.monotonic_ns() - begin_ns_;
      late_ns_ = begin_ns_ + std::max(kLateTimes * half_ns, kLeastLateNs);
    }
  }
  bool is_late() const { return !sent_again_ && late_ns_ != 0 && clock_.monotonic_ns() >= late_ns_; }
  void send_again() {
    sent_again_ = true;
    for (std::size_t i = 0; i < exchanges_.size(); ++i) {
      if (exchanges_[i] == nullptr) continue;
      withdraw(i);
      send(i);
    }
  }
  // Ends requests that were silent for too long. Returns true if any is left.
  bool end_silent() {
    const std::int64_t now_ns = clock_.monotonic_ns();
    bool left = false;
    for (std::size_t i = 0; i < exchanges_.size(); ++i) {
      if (exchanges_[i] != nullptr && now_ns - exchanges_[i]->moved_ns() >= limits_.silence_ns) withdraw(i);
      left |= exchanges_[i] != nullptr;
    }
    return left;
  }
  // The handles' own time limits end the wait, too.
  int wait_ms() const {
    constexpr std::int64_t kLookMs = 100;
    const std::int64_t now_ns = clock_.monotonic_ns();
    std::int64_t until_ns = now_ns + kLookMs * 1'000'000;
    if (!sent_again_ && late_ns_ != 0) until_ns = std::min(until_ns, late_ns_);
    for (const auto& exchange : exchanges_) {
      if (exchange == nullptr) continue;
      const TransferLimits since{until_ns, limits_.silence_ns, limits_.earlier_end};
      until_ns = since.wait_until(exchange->moved_ns());
    }
    return static_cast<int>(std::clamp<std::int64_t>((until_ns - now_ns) / 1'000'000 + 1, 1, kLookMs));
  }

  // Requests are late that take so many times as long as half of them did.
  static constexpr std::int64_t kLateTimes = 3;
  static constexpr std::int64_t kLeastLateNs = 10'000'000;

  const S3Access& access_;
  const std::vector<S3Request>& requests_;
  CURLM* const multi_;
  os::Clock& clock_;
  const std::int64_t begin_ns_;
  const TransferLimits limits_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;  // null: it ended
  std::vector<S3Response> responses_;
  std::size_t ended_ = 0;
  std::int64_t late_ns_ = 0;  // 0: less than half of them ended
  bool sent_again_ = false;
};

constexpr std::size_t kMostIdleMultis = 4;

}  // namespace

bool has_s3() { return true; }

// Handles that keep connections open between requests. Those of single requests have one or two, so that calls with
// many use others.
class S3Client::Pool {
 public:
  Multi take(bool for_many) EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      std::vector<Multi>& idle = idle_[for_many ? 1 : 0];
      if (!idle.empty()) {
        Multi multi = std::move(idle.back());
        idle.pop_back();
        return multi;
      }
    }
    Multi multi(curl_multi_init());
    curl_multi_setopt(multi.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, static_cast<long>(kMostS3Connections));
    curl_multi_setopt(multi.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(kMostS3Connections));  // that stay open
    return multi;
  }
  void give_back(Multi multi, bool for_many) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::vector<Multi>& idle = idle_[for_many ? 1 : 0];
    if (idle.size() < kMostIdleMultis) idle.push_back(std::move(multi));
  }

 private:
  Mutex mutex_;
  std::array<std::vector<Multi>, 2> idle_ GUARDED_BY(mutex_);
};

S3Client::S3Client(S3Access access, os::Clock& clock)
    : access_(std::move(access)), clock_(clock), pool_(std::make_unique<Pool>()) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  KVKEEP_ASSERT(initialised == CURLE_OK, "libcurl starts");
}

S3Client::~S3Client() = default;

std::vector<S3Response> S3Client::perform(const std::vector<S3Request>& requests, const TransferLimits& limits) {
  if (requests.empty()) return {};
  if (clock_.monotonic_ns() + 1'000'000 > limits.deadline_ns) {
    return std::vector<S3Response>(requests.size(), {.status = io_error("no answer in time")});
  }
  const bool many = requests.size() > 1;
  Multi multi = pool_->take(many);
  std::vector<S3Response> responses = Batch(access_, requests, multi.get(), clock_, limits).run();
  pool_->give_back(std::move(multi), many);
  return responses;
}

#else

bool has_s3() { return false; }

class S3Client::Pool {};
S3Client::S3Client(S3Access access, os::Clock& clock) : access_(std::move(access)), clock_(clock) {}
S3Client::~S3Client() = default;
std::vector<S3Response> S3Client::perform(const std::vector<S3Request>& requests, const TransferLimits&) {
  return std::vector<S3Response>(requests.size(), {.status = unsupported("this build has no libcurl")});
}

#endif

}  // namespace kvkeep::share
