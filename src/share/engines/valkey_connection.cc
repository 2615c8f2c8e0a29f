#include "share/engines/valkey_connection.h"

#ifdef KVKEEP_HAS_HIREDIS
#include <hiredis/hiredis.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>

#include "base/assert.h"
#include "base/mutex.h"
#include "os/network.h"

namespace kvkeep::share {

Error valkey_error(std::string_view message) {
  const std::string text(message.substr(0, 200));
  const std::string_view word = message.substr(0, message.find(' '));
  constexpr std::array<std::string_view, 4> kRefusals{"NOAUTH", "WRONGPASS", "NOPERM", "DENIED"};
  constexpr std::array<std::string_view, 8> kMoments{"MOVED",    "ASK",  "CLUSTERDOWN", "LOADING",
                                                     "TRYAGAIN", "BUSY", "MASTERDOWN",  "READONLY"};
  if (word == "OOM") return no_space(text);
  if (std::ranges::find(kRefusals, word) != kRefusals.end()) return invalid(text);
  if (std::ranges::find(kMoments, word) != kMoments.end()) return busy(text);
  return message.starts_with("ERR AUTH") ? invalid(text) : damaged(text);
}

#ifdef KVKEEP_HAS_HIREDIS

namespace {

// hiredis copies what it sends into one buffer, which must stay small to stay fast.
constexpr std::size_t kChunkBytes = 128 << 10;
constexpr std::size_t kSmallReplyBytes = 64 << 10;
// The longest lists are those of CLUSTER SLOTS: a list for each of up to 16,384 ranges, with a list for each of its
// servers. A list is reserved as a whole when its size is read, so that a few bytes could claim any memory.
constexpr std::size_t kMostElements = 32 * 16'384;
constexpr int kMostDepth = 8;
// Answers of several nodes are read one after the other: while one hangs until the deadline, the others' arrive, and
// lie in the system's buffers.
constexpr std::size_t kMostLateBytes = 4 << 20;

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeTls {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// Returns the reason why the connection ended. hiredis reports each end of TLS by errno, which then says "Success", or
// names an earlier error elsewhere. `tls` is null without TLS.
std::string words_of(const redisContext& context, const SSL* tls) {
  if (context.err != REDIS_ERR_IO || tls == nullptr) return context.errstr;
  if (const long verdict = SSL_get_verify_result(tls); verdict != X509_V_OK) {
    return std::string("the server's certificate is refused: ") + X509_verify_cert_error_string(verdict) +
           "; ?ca=FILE in the URL names the CA to trust";
  }
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "the connection broke" : std::string("TLS failed: ") + reason;
}

Error trouble(const redisContext& context, const SSL* tls) {
  // Memory for lists is refused by create_list() alone.
  const bool is_damage = context.err == REDIS_ERR_PROTOCOL || context.err == REDIS_ERR_OOM;
  return is_damage ? damaged(context.errstr) : io_error(words_of(context, tls));
}

// The kind of an answer that has a text, by hiredis's number of its type.
ValkeyReply::Kind kind_of_text(int type) {
  switch (type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_VERB: return ValkeyReply::Kind::kText;
    case REDIS_REPLY_ERROR: return ValkeyReply::Kind::kError;
    default: return ValkeyReply::Kind::kNothing;
  }
}

bool is_list(int type) { return type == REDIS_REPLY_ARRAY || type == REDIS_REPLY_SET || type == REDIS_REPLY_MAP; }

}  // namespace

class ValkeyTrust {
 public:
  // The context lives as long as this.
  Result<SSL_CTX*> context(const std::string& ca_file) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (context_ == nullptr) {
      TRY_ASSIGN(context_, read(ca_file));
    }
    return context_.get();
  }

 private:
  using Context = std::unique_ptr<SSL_CTX, FreeTls>;
  static Result<Context> read(const std::string& ca_file) {
    Context made(SSL_CTX_new(TLS_client_method()));
    if (made == nullptr) return unsupported("OpenSSL cannot make a TLS client");
    SSL_CTX_set_min_proto_version(made.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER, nullptr);
    const int loaded = ca_file.empty() ? SSL_CTX_set_default_verify_paths(made.get())
                                       : SSL_CTX_load_verify_locations(made.get(), ca_file.c_str(), nullptr);
    if (loaded != 1 && ca_file.empty()) return invalid("the system's CA certificates cannot be read");
    if (loaded != 1) return invalid("the CA file " + ca_file + " cannot be read");
    return made;
  }

  Mutex mutex_;
  Context context_ GUARDED_BY(mutex_);
};

std::shared_ptr<ValkeyTrust> make_valkey_trust() { return std::make_shared<ValkeyTrust>(); }

namespace {

// Begins TLS: the server's certificate must be of a trusted CA and of this host. Returns the session, which the context
// owns.
Result<SSL*> begin_tls(redisContext* context, const std::string& host, const ValkeyAccess& access) {
  TRY_ASSIGN(SSL_CTX * tls, access.trust->context(access.ca_file));
  SSL* session = SSL_new(tls);
  if (session == nullptr) return unsupported("OpenSSL cannot make a TLS session");
  X509_VERIFY_PARAM* wanted = SSL_get0_param(session);
  if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) != 1) {
    SSL_set1_host(session, host.c_str());
    SSL_set_tlsext_host_name(session, host.c_str());
  }
  ERR_clear_error();  // of other connections of this thread
  if (redisInitiateSSL(context, session) != REDIS_OK) return trouble(*context, session);
  return session;
}

}  // namespace

bool has_valkey() { return true; }

// Answers are made in place while hiredis parses: its own objects would be several pieces of memory for each of the
// hundreds of answers to a look-up, which are copied once more.
struct ValkeyConnection::Wire {
  void make_answers() {
    functions = {.createString = &Wire::create_text,
                 .createArray = &Wire::create_list,
                 .createInteger = &Wire::create_number,
                 .createDouble = [](const redisReadTask* task, double, char*, std::size_t) { return create(task); },
                 .createNil = &Wire::create,
                 .createBool = [](const redisReadTask* task, int) { return create(task); },
                 .freeObject = [](void*) {}};
    context->reader->fn = &functions;
    context->reader->maxelements = kMostElements;
    context->reader->privdata = this;
  }
  void begin_answer(std::vector<std::byte>* bytes) {
    reply = {};
    elements = late_bytes = 0;
    whole_text = bytes;
  }

  // Lists are filled in order, so that only the last element of each may still grow.
  static void* create(const redisReadTask* task) {
    if (task->parent == nullptr) return &static_cast<Wire*>(task->privdata)->reply;
    return &static_cast<ValkeyReply*>(task->parent->obj)->list.emplace_back();
  }
  static void* create_text(const redisReadTask* task, char* text, std::size_t size) {
    auto* made = static_cast<ValkeyReply*>(create(task));
    made->kind = kind_of_text(task->type);
    if (made->kind == ValkeyReply::Kind::kNothing) return made;
    const std::size_t format = task->type == REDIS_REPLY_VERB ? std::min<std::size_t>(4, size) : 0;  // "txt:"
    std::vector<std::byte>* bytes = static_cast<Wire*>(task->privdata)->whole_text;
    if (bytes == nullptr || task->parent != nullptr || made->kind != ValkeyReply::Kind::kText) {
      made->text.assign(text + format, size - format);
    } else {
      const ByteSpan all = std::as_bytes(std::span(text + format, size - format));
      bytes->assign(all.begin(), all.end());
    }
    return made;
  }
  static void* create_number(const redisReadTask* task, long long number) {
    auto* made = static_cast<ValkeyReply*>(create(task));
    *made = {.kind = ValkeyReply::Kind::kNumber, .number = number};
    return made;
  }
  // Bounds the lists of an answer, which hiredis does for each list by itself only.
  static void* create_list(const redisReadTask* task, std::size_t size) {
    auto& wire = *static_cast<Wire*>(task->privdata);
    int depth = 0;
    for (const redisReadTask* above = task; above != nullptr && depth <= kMostDepth; above = above->parent) ++depth;
    if (depth > kMostDepth || size > kMostElements - wire.elements) return nullptr;
    wire.elements += size;
    auto* made = static_cast<ValkeyReply*>(create(task));
    if (is_list(task->type)) made->kind = ValkeyReply::Kind::kList;
    return made;
  }

  redisReplyObjectFunctions functions{};
  ValkeyReply reply;                                   // the answer that is being read
  std::vector<std::byte>* whole_text = nullptr;        // where its text goes if it is one; null: into itself
  std::size_t elements = 0;                            // of it
  std::size_t late_bytes = 0;                          // of it, after its deadline
  std::string queued;                                  // commands
  const SSL* tls = nullptr;                            // of the context; null: without TLS
  std::unique_ptr<redisContext, FreeContext> context;  // which has pointers to what is above
};

ValkeyConnection::ValkeyConnection(std::unique_ptr<Wire> wire, os::Clock& clock)
    : wire_(std::move(wire)), clock_(clock) {}

ValkeyConnection::~ValkeyConnection() = default;

Result<std::unique_ptr<ValkeyConnection>> ValkeyConnection::open(const std::string& address, const HostPort& host,
                                                                 const ValkeyAccess& access, os::Clock& clock,
                                                                 std::int64_t deadline_ns) {
  auto wire = std::make_unique<Wire>();
  wire->context.reset(redisConnectNonBlock(address.c_str(), host.port));
  if (wire->context == nullptr) return io_error("out of memory");
  if (wire->context->err != 0) return trouble(*wire->context, nullptr);
  wire->context->reader->maxbuf = 0;  // keeps its memory, which pieces of one size use again
  wire->make_answers();
  redisContext* context = wire->context.get();
  std::unique_ptr<ValkeyConnection> connection(new ValkeyConnection(std::move(wire), clock));
  if (!connection->wait(false, deadline_ns)) return io_error("no connection in time");
  if (access.tls) {
    TRY_ASSIGN(connection->wire_->tls, begin_tls(context, host.host, access));
  }
  redisEnableKeepAlive(context);
  TRY(connection->authenticate(access, deadline_ns));
  return connection;
}

namespace {

// The server's words tell neither what was sent nor where it came from.
std::string log_in_advice(std::string_view refusal, const ValkeyAccess& access) {
  if (access.password.empty()) {
    return refusal.starts_with("NOAUTH") ? ": no password is set (KVKEEP_SHARE_PASSWORD_FILE)"
                                         : ": as the default user, without a password";
  }
  const std::string user =
      access.user.empty() ? "the default user (KVKEEP_SHARE_USER is not set)" : "user '" + access.user + "'";
  return ": as " + user + " with the password of " + access.password_from;
}

}  // namespace

Status ValkeyConnection::authenticate(const ValkeyAccess& access, std::int64_t deadline_ns) {
  if (access.password.empty()) {
    queue({"PING"});
  } else if (access.user.empty()) {
    queue({"AUTH", access.password});
  } else {
    queue({"AUTH", access.user, access.password});
  }
  TRY(send(deadline_ns));
  TRY_ASSIGN(const ValkeyReply reply, receive(kSmallReplyBytes, deadline_ns));
  if (reply.kind != ValkeyReply::Kind::kError) return {};
  Error error = valkey_error(reply.text);
  if (error.message.ends_with('.')) error.message.pop_back();
  if (error.kind == ErrorKind::kInvalid) error.message += log_in_advice(reply.text, access);
  return error;
}

// Silence is time without a byte in which somebody waits: a thread that was given no processor says nothing of the
// other side.
bool ValkeyConnection::wait(bool for_reading, const TransferLimits& limits) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  const std::int64_t left_ns = limits.wait_until(now_ns) - now_ns;
  if (left_ns <= 0) return false;
  const auto ms = static_cast<int>(std::min<std::int64_t>((left_ns + 999'999) / 1'000'000, 3'600'000));
  return os::wait_for_socket(wire_->context->fd, for_reading ? os::Readiness::kRead : os::Readiness::kWrite, ms);
}

bool ValkeyConnection::quiet() const { return !os::wait_for_socket(wire_->context->fd, os::Readiness::kRead, 0); }

namespace {

void append_size(std::string& text, char sign, std::size_t size) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), size).ptr;
  text += sign;
  text.append(digits.begin(), end).append("\r\n");
}

void append_words(std::string& text, ValkeyConnection::Words words) {
  for (const std::string_view word : words) {
    append_size(text, '$', word.size());
    text.append(word).append("\r\n");
  }
}

void hand_over(redisContext* context, std::string_view bytes) {
  const int taken = redisAppendFormattedCommand(context, bytes.data(), bytes.size());
  KVKEEP_ASSERT(taken == REDIS_OK, "there is memory for a command");
}

}  // namespace

void ValkeyConnection::queue(const Words& words) {
  append_size(wire_->queued, '*', words.size());
  append_words(wire_->queued, words);
}

Status ValkeyConnection::send(const TransferLimits& limits) {
  if (!wire_->queued.empty()) hand_over(wire_->context.get(), wire_->queued);
  wire_->queued.clear();
  for (int done = 0;;) {
    if (redisBufferWrite(wire_->context.get(), &done) != REDIS_OK) return trouble(*wire_->context, wire_->tls);
    if (done != 0) return {};
    // Until its handshake is over, TLS waits for the other side before it sends.
    const bool for_reading = wire_->tls != nullptr && SSL_want_read(wire_->tls);
    if (wait(for_reading, limits)) continue;
    return io_error(for_reading ? "no answer to TLS in time: does this port speak it (valkey:// is without)?"
                                : "no answer in time");
  }
}

Status ValkeyConnection::send_large(const Words& before, ByteSpan bytes, const Words& after,
                                    const TransferLimits& limits) {
  append_size(wire_->queued, '*', before.size() + 1 + after.size());
  append_words(wire_->queued, before);
  append_size(wire_->queued, '$', bytes.size());
  redisContext* context = wire_->context.get();
  hand_over(context, std::exchange(wire_->queued, {}));
  while (!bytes.empty()) {
    const ByteSpan chunk = bytes.first(std::min(kChunkBytes, bytes.size()));
    hand_over(context, {reinterpret_cast<const char*>(chunk.data()), chunk.size()});
    TRY(send(limits));
    bytes = bytes.subspan(chunk.size());
  }
  wire_->queued += "\r\n";
  append_words(wire_->queued, after);
  return send(limits);
}

// So many bytes came. Returns false if the deadline is over: after waiting if there were none, or if bytes go on to
// come.
bool ValkeyConnection::goes_on(std::size_t count, const TransferLimits& limits) {
  if (count == 0) return wait(true, limits);
  if (clock_.monotonic_ns() >= limits.end_ns()) wire_->late_bytes += count;
  return wire_->late_bytes <= kMostLateBytes;
}

// Reads an answer until all of it is there. Bytes count when they arrive: what is made of them may take many times
// their size. Whether the deadline is over is asked in each round, as a server may never stop to send.
Status ValkeyConnection::receive_reply(std::size_t most_bytes, const TransferLimits& limits) {
  redisContext* context = wire_->context.get();
  std::size_t bytes = context->reader->len - context->reader->pos;
  for (;;) {
    void* reply = nullptr;
    if (redisGetReplyFromReader(context, &reply) != REDIS_OK) return trouble(*context, wire_->tls);
    if (reply != nullptr) return {};
    const std::size_t before = context->reader->len;
    if (bytes > most_bytes + kSmallReplyBytes) return damaged("an answer is too long");
    if (redisBufferRead(context) != REDIS_OK) return trouble(*context, wire_->tls);
    const std::size_t count = context->reader->len - before;
    bytes += count;
    if (!goes_on(count, limits)) return io_error("no answer in time");
  }
}

Result<ValkeyReply> ValkeyConnection::receive(std::size_t most_bytes, const TransferLimits& limits,
                                              std::vector<std::byte>* bytes) {
  wire_->begin_answer(bytes);
  TRY(receive_reply(most_bytes, limits));
  return std::move(wire_->reply);
}

// Fills `out` past hiredis, whose buffer must be empty.
Status ValkeyConnection::read(MutableByteSpan out, const Arrived& arrived, const TransferLimits& limits) {
  redisContext* context = wire_->context.get();
  for (std::size_t at = 0; at < out.size();) {
    const auto count = context->funcs->read(context, reinterpret_cast<char*>(out.data()) + at, out.size() - at);
    if (count < 0) return trouble(*context, wire_->tls);
    at += static_cast<std::size_t>(count);
    if (at < out.size() && !goes_on(static_cast<std::size_t>(count), limits)) return io_error("no answer in time");
    if (count > 0) arrived(at);
  }
  return {};
}

// Reads the beginning of an answer. If it is none of a text of this size, hiredis has it to go on with.
Result<bool> ValkeyConnection::begins_text_of(std::size_t size, const TransferLimits& limits) {
  redisContext* context = wire_->context.get();
  if (context->reader->len > context->reader->pos) return false;
  constexpr std::size_t kShortestAnswer = 4;
  const std::string expected = "$" + std::to_string(size) + "\r\n";
  std::string begin;
  for (const std::size_t until : {kShortestAnswer, expected.size()}) {
    const std::size_t had = begin.size();
    begin.resize(until);
    const auto more = std::as_writable_bytes(std::span(begin)).subspan(had);
    TRY(read(more, [](std::size_t) {}, limits));
    if (expected.starts_with(begin)) continue;
    redisReaderFeed(context->reader, begin.data(), begin.size());
    return false;
  }
  return true;
}

// hiredis copies each byte three times.
Status ValkeyConnection::receive_into(MutableByteSpan out, const Arrived& arrived, const TransferLimits& limits) {
  wire_->begin_answer(nullptr);
  TRY_ASSIGN(const bool is_it, begins_text_of(out.size(), limits));
  if (is_it) {
    TRY(read(out, arrived, limits));
    std::array<char, 2> end{};
    TRY(read(std::as_writable_bytes(std::span(end)), [](std::size_t) {}, limits));
    if (end != std::array{'\r', '\n'}) return damaged("a text is longer than its size");
    return {};
  }
  TRY(receive_reply(out.size(), limits));
  const ValkeyReply& reply = wire_->reply;
  if (reply.kind == ValkeyReply::Kind::kError) return valkey_error(reply.text);
  if (reply.kind != ValkeyReply::Kind::kText || reply.text.size() != out.size()) return not_found("a piece is gone");
  std::memcpy(out.data(), reply.text.data(), out.size());
  arrived(out.size());
  return {};
}

#else

bool has_valkey() { return false; }

class ValkeyTrust {};
std::shared_ptr<ValkeyTrust> make_valkey_trust() { return nullptr; }

struct ValkeyConnection::Wire {};

ValkeyConnection::ValkeyConnection(std::unique_ptr<Wire> wire, os::Clock& clock)
    : wire_(std::move(wire)), clock_(clock) {}

ValkeyConnection::~ValkeyConnection() = default;

Result<std::unique_ptr<ValkeyConnection>> ValkeyConnection::open(const std::string&, const HostPort&,
                                                                 const ValkeyAccess&, os::Clock&, std::int64_t) {
  return unsupported("this build has no hiredis");
}

bool ValkeyConnection::quiet() const { return true; }
void ValkeyConnection::queue(const Words&) {}
Status ValkeyConnection::send(const TransferLimits&) { return unsupported("this build has no hiredis"); }
Status ValkeyConnection::send_large(const Words&, ByteSpan, const Words&, const TransferLimits&) { return send(0); }
Result<ValkeyReply> ValkeyConnection::receive(std::size_t, const TransferLimits&, std::vector<std::byte>*) {
  return unsupported("this build has no hiredis");
}
Status ValkeyConnection::receive_into(MutableByteSpan, const Arrived&, const TransferLimits&) { return send(0); }

#endif

}  // namespace kvkeep::share
