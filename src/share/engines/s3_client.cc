#include "share/engines/s3_client.h"

#ifdef KVKEEP_HAS_CURL
#include <curl/curl.h>
#endif

#include <algorithm>
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
    case 400:
    case 401:
    case 403: return invalid(text + ": wrong keys, region or bucket, or a right is missing");
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
  Exchange(const S3Access& access, const S3Request& request, long left_ms) : request_(request) {
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
    return count;
  }

  const S3Request& request_;
  std::unique_ptr<CURL, FreeEasy> easy_{curl_easy_init()};
  std::unique_ptr<curl_slist, FreeList> headers_;
  std::size_t received_ = 0;
  std::size_t part_ = 0;
  std::size_t part_at_ = 0;
};

constexpr std::size_t kMostIdleMultis = 4;

}  // namespace

bool has_s3() { return true; }

// Handles that keep connections open between requests.
struct S3Client::Pool {
  Multi take() EXCLUDES(mutex) {
    {
      const MutexLock lock(mutex);
      if (!idle.empty()) {
        Multi multi = std::move(idle.back());
        idle.pop_back();
        return multi;
      }
    }
    return Multi(curl_multi_init());
  }
  void give_back(Multi multi) EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    if (idle.size() < kMostIdleMultis) idle.push_back(std::move(multi));
  }

  Mutex mutex;
  std::vector<Multi> idle GUARDED_BY(mutex);
};

S3Client::S3Client(S3Access access, os::Clock& clock)
    : access_(std::move(access)), clock_(clock), pool_(std::make_unique<Pool>()) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  KVKEEP_ASSERT(initialised == CURLE_OK, "libcurl starts");
}

S3Client::~S3Client() = default;

std::vector<S3Response> S3Client::perform(const std::vector<S3Request>& requests, std::int64_t deadline_ns) {
  std::vector<S3Response> responses(requests.size(), {.status = io_error("no answer in time")});
  const std::int64_t left_ms = (deadline_ns - clock_.monotonic_ns()) / 1'000'000;
  if (left_ms <= 0) return responses;
  Multi multi = pool_->take();
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (const S3Request& request : requests) {
    exchanges.push_back(std::make_unique<Exchange>(access_, request, static_cast<long>(left_ms)));
    curl_multi_add_handle(multi.get(), exchanges.back()->easy());
  }
  int running = 1;
  while (running > 0) {
    if (curl_multi_perform(multi.get(), &running) != CURLM_OK) break;
    constexpr int kLookMs = 100;  // the handles' own time limits end the wait
    if (running > 0) curl_multi_poll(multi.get(), nullptr, 0, kLookMs, nullptr);
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi.get(), &left)) {
    const auto done = std::ranges::find(exchanges, message->easy_handle, [](const auto& one) { return one->easy(); });
    const auto place = static_cast<std::size_t>(done - exchanges.begin());
    responses[place] = (*done)->finish(message->data.result);
  }
  for (const auto& exchange : exchanges) curl_multi_remove_handle(multi.get(), exchange->easy());
  pool_->give_back(std::move(multi));
  return responses;
}

#else

bool has_s3() { return false; }

struct S3Client::Pool {};
S3Client::S3Client(S3Access access, os::Clock& clock) : access_(std::move(access)), clock_(clock) {}
S3Client::~S3Client() = default;
std::vector<S3Response> S3Client::perform(const std::vector<S3Request>& requests, std::int64_t) {
  return std::vector<S3Response>(requests.size(), {.status = unsupported("this build has no libcurl")});
}

#endif

}  // namespace kvkeep::share
