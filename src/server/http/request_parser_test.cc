// Every kind of request whose framing is malformed, ambiguous or unusual, and the parser's result. Each is fed at once
// and byte by byte: it must not matter where the bytes are cut.

#include "server/http/request_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvkeep::server {
namespace {

class Text final : public BodySink {
 public:
  std::size_t take(std::string_view bytes) override {
    text += bytes;
    return bytes.size();
  }
  std::string text;
};

// "400", or "POST /x [body] +rest": the request, and the bytes after it.
std::string outcome(const RequestParser& parser, HttpRequest& head, const std::string& body, std::string_view rest) {
  switch (parser.state()) {
    case RequestParser::State::kRefused: return std::to_string(parser.refusal().status);
    case RequestParser::State::kHead: return "head goes on";
    case RequestParser::State::kBody: return "body goes on";
    case RequestParser::State::kDone: break;
  }
  std::string said = head.method + " " + head.path;
  if (!head.query.empty()) said += "?" + head.query;
  said += " [" + body + "]";
  if (parser.framing().closes) said += " closes";
  if (parser.framing().expects_continue) said += " waits";
  if (!rest.empty()) said += fmt::format(" +{}", rest.size());
  return said;
}

// `step`: how many bytes arrive at a time.
std::string read(std::string_view bytes, std::size_t step) {
  RequestParser parser;
  Text body;
  std::size_t used = 0;
  for (std::size_t here = std::min(step, bytes.size());; here = std::min(here + step, bytes.size())) {
    if (parser.state() == RequestParser::State::kHead) used += parser.feed_head(bytes.substr(used, here - used));
    if (parser.state() == RequestParser::State::kBody) used += parser.feed_body(bytes.substr(used, here - used), body);
    const bool goes_on = parser.state() == RequestParser::State::kHead || parser.state() == RequestParser::State::kBody;
    if (!goes_on || here == bytes.size()) break;
  }
  return outcome(parser, parser.head(), body.text, bytes.substr(std::min(used, bytes.size())));
}

void expect(std::string_view name, const std::string& bytes, std::string_view expected) {
  EXPECT_EQ(read(bytes, bytes.size()), expected) << name;
  EXPECT_EQ(read(bytes, 1), expected) << name << ", byte by byte";
  EXPECT_EQ(read(bytes, 7), expected) << name << ", in sevens";
}

const std::string kHost = "Host: localhost\r\n";
std::string post(const std::string& fields, const std::string& rest = "", const std::string& version = "1.1") {
  return "POST /x HTTP/" + version + "\r\n" + kHost + fields + "\r\n" + rest;
}
std::string chunked(const std::string& rest) { return post("Transfer-Encoding: chunked\r\n", rest); }

struct Row {
  std::string name;
  std::string bytes;
  std::string expected;
};

void expect_all(const std::vector<Row>& rows) {
  for (const Row& row : rows) expect(row.name, row.bytes, row.expected);
}

TEST(RequestParser, LengthsOfBodies) {
  const std::string next = "GET / HTTP/1.1\r\n\r\n";
  expect_all({
      {"plain", post("Content-Length: 5\r\n", "12345" + next), "POST /x [12345] +18"},
      {"none", post("", next), "POST /x [] +18"},
      {"zero", post("Content-Length: 0\r\n", next), "POST /x [] +18"},
      {"leading zeros", post("Content-Length: 005\r\n", "12345"), "POST /x [12345]"},
      {"too few bytes", post("Content-Length: 9\r\n", "12345"), "body goes on"},
      {"length and encoding", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "400"},
      {"encoding and length", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), "400"},
      {"empty encoding and length", post("Transfer-Encoding: \r\nContent-Length: 5\r\n", "12345"), "400"},
      {"twice the same", post("Content-Length: 5\r\nContent-Length: 5\r\n", "12345"), "400"},
      {"twice, others", post("Content-Length: 5\r\nContent-Length: 6\r\n", "12345"), "400"},
      {"a list", post("Content-Length: 5, 5\r\n", "12345"), "400"},
      {"negative", post("Content-Length: -1\r\n"), "400"},
      {"plus", post("Content-Length: +5\r\n", "12345"), "400"},
      {"hexadecimal", post("Content-Length: 0x5\r\n", "12345"), "400"},
      {"percent-encoded", post("Content-Length: %35\r\n", "12345"), "400"},
      {"letters behind", post("Content-Length: 5x\r\n", "12345"), "400"},
      {"huge", post("Content-Length: 99999999999999999999999999\r\n"), "400"},
      {"empty", post("Content-Length: \r\n"), "400"},
      {"of a GET", "GET /x HTTP/1.1\r\n" + kHost + "Content-Length: 3\r\n\r\nabc", "GET /x [abc]"},
  });
}

TEST(RequestParser, TransferEncodings) {
  const std::string body = "5\r\n12345\r\n0\r\n\r\n";
  expect_all({
      {"chunked", chunked(body), "POST /x [12345]"},
      {"in capitals", post("Transfer-Encoding: CHUNKED\r\n", body), "POST /x [12345]"},
      {"behind a tab", post("Transfer-Encoding:\tchunked\r\n", body), "POST /x [12345]"},
      {"percent-encoded", post("Transfer-Encoding: %63hunked\r\n", body), "501"},
      {"unknown", post("Transfer-Encoding: xchunked\r\n", body), "501"},
      {"chunked not last", post("Transfer-Encoding: chunked, identity\r\n", body), "501"},
      {"two codings", post("Transfer-Encoding: gzip, chunked\r\n", body), "501"},
      {"chunked twice in one", post("Transfer-Encoding: chunked,chunked\r\n", body), "501"},
      {"two fields", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", body), "400"},
      {"identity", post("Transfer-Encoding: identity\r\n", body), "501"},
      {"empty", post("Transfer-Encoding: \r\n", body), "501"},
      {"with a parameter", post("Transfer-Encoding: chunked;q=1\r\n", body), "501"},
      {"quoted", post("Transfer-Encoding: \"chunked\"\r\n", body), "501"},
      {"vertical tab", post("Transfer-Encoding: \vchunked\r\n", body), "400"},
      {"of HTTP/1.0", post("Transfer-Encoding: chunked\r\n", body, "1.0"), "400"},
  });
}

TEST(RequestParser, Chunks) {
  expect_all({
      {"several", chunked("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), "POST /x [abc]"},
      {"leading zeros", chunked("0005\r\n12345\r\n000\r\n\r\n"), "POST /x [12345]"},
      {"capital digits", chunked("A\r\n1234567890\r\n0\r\n\r\n"), "POST /x [1234567890]"},
      {"an extension", chunked("5;a=b\r\n12345\r\n0;x\r\n\r\n"), "POST /x [12345]"},
      {"a long extension", chunked("5;" + std::string(5'000, 'a') + "\r\n12345\r\n0\r\n\r\n"), "400"},
      {"an endless extension", chunked("5;" + std::string(100'000, 'a')), "400"},
      {"a line feed in an extension", chunked("5;a\nb\r\n12345\r\n0\r\n\r\n"), "400"},
      {"minus", chunked("-5\r\n12345\r\n0\r\n\r\n"), "400"},
      {"minus that wraps round", chunked("-ffffffffffffffdf\r\n12345\r\n0\r\n\r\n"), "400"},
      {"0x", chunked("0x5\r\n12345\r\n0\r\n\r\n"), "400"},
      {"plus", chunked("+5\r\n12345\r\n0\r\n\r\n"), "400"},
      {"blanks before", chunked("  5\r\n12345\r\n0\r\n\r\n"), "400"},
      {"letters behind", chunked("5zz\r\n12345\r\n0\r\n\r\n"), "400"},
      {"blanks and letters behind", chunked("5 \t x\r\n12345\r\n0\r\n\r\n"), "400"},
      {"a size beyond 64 bits", chunked("1000000000000000005\r\n12345\r\n0\r\n\r\n"), "400"},
      {"no size", chunked("\r\n12345\r\n0\r\n\r\n"), "400"},
      {"bare line feeds", chunked("5\n12345\n0\n\n"), "body goes on"},  // until its deadline
      {"a bare line feed behind the size", chunked("5\n12345\r\n0\r\n\r\n"), "400"},
      {"no line end behind the data", chunked("5\r\n12345XX0\r\n\r\n"), "400"},
      {"without an end", chunked("5\r\n12345\r\n"), "body goes on"},
  });
}

TEST(RequestParser, TrailersAddNothing) {
  expect_all({
      {"a field", chunked("1\r\na\r\n0\r\nX: y\r\n\r\n"), "POST /x [a]"},
      {"a second Host", chunked("1\r\na\r\n0\r\nHost: evil.example\r\n\r\n"), "POST /x [a]"},
      {"a key", chunked("1\r\na\r\n0\r\nAuthorization: Bearer x\r\n\r\n"), "POST /x [a]"},
      {"1 MB", chunked("1\r\na\r\n0\r\nX: " + std::string(1'000'000, 'a') + "\r\n\r\n"), "400"},
      {"a request", chunked("1\r\na\r\n0\r\nGET /health HTTP/1.1\r\n\r\n"), "400"},
  });
  RequestParser parser;
  Text body;
  const std::string bytes = chunked("1\r\na\r\n0\r\nAuthorization: Bearer x\r\n\r\n");
  const std::size_t head = parser.feed_head(bytes);
  parser.feed_body(std::string_view(bytes).substr(head), body);
  EXPECT_EQ(parser.state(), RequestParser::State::kDone);
  EXPECT_EQ(parser.head().header("authorization"), "");
}

TEST(RequestParser, LinesOfTheHead) {
  const std::string get = "GET /health HTTP/1.1\r\n" + kHost;
  expect_all({
      {"a line that goes on", get + "X: a\r\n b\r\n\r\n", "400"},
      {"a length that goes on", post("Content-Length:\r\n 5\r\n", "12345"), "400"},
      {"bare line feeds", "POST /x HTTP/1.1\nHost: localhost\nContent-Length: 5\n\n12345", "400"},
      {"a bare carriage return", get + "X: a\rContent-Length: 3\r\n\r\n", "400"},
      {"a zero byte", get + std::string("X: a\0b\r\n\r\n", 10), "400"},
      {"an escape", get + "X: \x1b[31m\r\n\r\n", "400"},
      {"no colon", get + "garbage\r\n\r\n", "400"},
      {"no name", get + ": x\r\n\r\n", "400"},
      {"a blank before the colon", post("Content-Length : 5\r\n", "12345"), "400"},
      {"the same, of an encoding", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), "400"},
      {"bytes beyond ASCII in a value", get + "X: \xc3\xa4\r\n\r\n", "GET /health []"},
      {"an empty line first", "\r\n" + get + "\r\n", "400"},  // the connection drops one, see connection.cc
      {"a handshake of TLS", std::string("\x16\x03\x01\x02", 4), "400"},
      {"unfinished", get, "head goes on"},
  });
}

TEST(RequestParser, RequestLines) {
  const std::string rest = "\r\n" + kHost + "\r\n";
  expect_all({
      {"HTTP/0.9", "GET /health\r\n\r\n", "400"},
      {"HTTP/1.9", "GET /health HTTP/1.9" + rest, "400"},
      {"HTTP/2.0", "GET /health HTTP/2.0" + rest, "400"},
      {"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
      {"http in small letters", "GET /health http/1.1" + rest, "400"},
      {"two blanks", "GET /health  HTTP/1.1" + rest, "400"},
      {"a tab", "GET /health\tHTTP/1.1" + rest, "400"},
      {"another method", "FOO /health HTTP/1.1" + rest, "FOO /health []"},
      {"an asterisk", "OPTIONS * HTTP/1.1" + rest, "OPTIONS * []"},
      {"a URL", "GET http://localhost:80/health?x=%20y HTTP/1.1" + rest, "GET /health?x=%20y []"},
      {"a URL in large letters", "GET HTTPS://localhost/%68ealth HTTP/1.1" + rest, "GET /health []"},
      {"a URL without a path", "GET http://localhost HTTP/1.1" + rest, "GET / []"},
      {"a URL with a query only", "GET http://localhost?a HTTP/1.1" + rest, "GET /?a []"},
      {"a URL without a host", "GET http:///health HTTP/1.1" + rest, "400"},
      {"a URL with a user", "GET http://localhost@evil.example/ HTTP/1.1" + rest, "400"},
      {"a URL of another scheme", "GET ftp://localhost/health HTTP/1.1" + rest, "GET ftp://localhost/health []"},
      {"a URL and two hosts", "GET http://localhost/ HTTP/1.1\r\n" + kHost + kHost + "\r\n", "400"},
      {"a query", "GET /health?x=%20y HTTP/1.1" + rest, "GET /health?x=%20y []"},
      {"encoded", "GET /%68ealth HTTP/1.1" + rest, "GET /health []"},
      {"badly encoded", "GET /%zz HTTP/1.1" + rest, "400"},
      {"cut off in a code", "GET /%6 HTTP/1.1" + rest, "400"},
      {"HTTP/1.0", "GET /health HTTP/1.0\r\n\r\n", "GET /health [] closes"},
  });
}

// The host of a URL counts, and not the field: checks of the host must see the name that the client means.
TEST(RequestParser, AUrlNamesTheHost) {
  for (const char* fields : {"", "Host: localhost\r\n", "Host: evil.example\r\nX: a\r\n"}) {
    RequestParser parser;
    parser.feed_head("GET http://other.example:81/health HTTP/1.1\r\n" + std::string(fields) + "\r\n");
    EXPECT_EQ(parser.head().header("Host"), "other.example:81") << fields;
    EXPECT_EQ(std::ranges::count(parser.head().headers, "Host", [](const auto& field) { return field.first; }), 1);
  }
}

TEST(RequestParser, SizesOfTheHead) {
  const std::string get = "GET /health HTTP/1.1\r\n" + kHost;
  std::string most;
  for (int i = 0; i < 99; ++i) most += fmt::format("X{}: a\r\n", i);  // and Host
  std::string large;
  for (int i = 0; i < 10; ++i) large += "X: " + std::string(7'000, 'a') + "\r\n";
  expect_all({
      {"100 fields", get + most + "\r\n", "GET /health []"},
      {"101 fields", get + most + "Y: a\r\n\r\n", "431"},
      {"a long field", get + "X: " + std::string(8'000, 'a') + "\r\n\r\n", "GET /health []"},
      {"too long a field", get + "X: " + std::string(9'000, 'a') + "\r\n\r\n", "431"},
      {"a field without an end", get + "X: " + std::string(100'000, 'a'), "431"},
      {"too much together", get + large + "\r\n", "431"},
      {"too long a target", "GET /" + std::string(9'000, 'a') + " HTTP/1.1\r\n\r\n", "414"},
  });
}

TEST(RequestParser, FieldsThatMayComeOnce) {
  for (const char* field : {"Host: localhost\r\n", "Authorization: Bearer a\r\n", "X-Api-Key: a\r\n", "Origin: a\r\n",
                            "Expect: 100-continue\r\n", "Content-Encoding: gzip\r\n"}) {
    expect(field, "GET / HTTP/1.1\r\n" + std::string(field) + field + "\r\n", "400");
  }
  expect("any other", "GET / HTTP/1.1\r\nCookie: a\r\nCookie: b\r\n\r\n", "GET / []");
}

TEST(RequestParser, ConnectionsThatEnd) {
  const auto with = [](const std::string& fields) { return "GET / HTTP/1.1\r\n" + fields + "\r\n"; };
  expect("close", with("Connection: close\r\n"), "GET / [] closes");
  expect("in a list", with("Connection: keep-alive, Close\r\n"), "GET / [] closes");
  expect("in a second field", with("Connection: keep-alive\r\nConnection: close\r\n"), "GET / [] closes");
  expect("something else", with("Connection: keep-alive, closed\r\n"), "GET / []");
  expect("an upgrade that is not taken up", with("Connection: Upgrade\r\nUpgrade: h2c\r\n"), "GET / []");
}

TEST(RequestParser, Expectations) {
  expect("leave is asked for", post("Content-Length: 1\r\nExpect: 100-continue\r\n", "a"), "POST /x [a] waits");
  expect("without a body", post("Content-Length: 0\r\nExpect: 100-continue\r\n"), "POST /x []");
  expect("of HTTP/1.0", post("Content-Length: 1\r\nExpect: 100-continue\r\n", "a", "1.0"), "POST /x [a] closes");
  expect("something else", post("Content-Length: 1\r\nExpect: 200-ok\r\n", "a"), "417");
}

// A refusal says what is wrong, although the library's parser only says that something is.
TEST(RequestParser, RefusalsNameTheFault) {
  const auto reason = [](const std::string& bytes) {
    RequestParser parser;
    Text body;
    const std::size_t used = parser.feed_head(bytes);
    if (parser.state() == RequestParser::State::kBody) parser.feed_body(std::string_view(bytes).substr(used), body);
    EXPECT_EQ(parser.state(), RequestParser::State::kRefused) << bytes;
    return parser.refusal().reason;
  };
  const std::string chunk_fault =
      "A chunk's size or extension is malformed or too long, or its data does not end with CR LF";
  for (const auto& [bytes, expected] : std::vector<std::pair<std::string, std::string>>{
           {post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            "The request states its body's length more than once"},
           {post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
            "The request states its body's length more than once"},
           {post("Content-Length: 5\r\nContent-Length: 6\r\n"), "The request has more than one field 'content-length'"},
           {post("Content-Length: -1\r\n"), "Content-Length is not a number"},
           {post("Content-Length: %33%33\r\n"), "Content-Length is not a number"},
           {post("Content-Length: 5, 5\r\n"), "Content-Length is not a number"},
           {post("Transfer-Encoding: chunked\r\n", "", "1.0"), "HTTP/1.0 does not allow Transfer-Encoding"},
           {post("garbage\r\n"), "A header field has no colon"},
           {post(": x\r\n"), "A header field's name is empty or contains a blank"},
           {post("Content-Length : 5\r\n"), "A header field's name is empty or contains a blank"},
           {post("A(b): 5\r\n"), "The request is not valid HTTP, or a header field is malformed"},
           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "Only HTTP/1.1 and HTTP/1.0 are supported"},
           {"NONSENSE\r\n\r\n", "The request is not valid HTTP, or a header field is malformed"},
           {"GET /%zz HTTP/1.1\r\n\r\n", "The request target has a percent sign without two hexadecimal digits"},
           {chunked("0x5\r\n12345\r\n0\r\n\r\n"), chunk_fault},
           {chunked("5\r\n12345XX0\r\n\r\n"), chunk_fault},
           {chunked("5;" + std::string(5'000, 'a') + "\r\n"), chunk_fault},
       }) {
    EXPECT_EQ(reason(bytes), expected) << bytes;
  }
}

// A key is the field's value, byte for byte.
TEST(RequestParser, ValuesAreNotDecoded) {
  RequestParser parser;
  parser.feed_head("GET / HTTP/1.1\r\nAuthorization: Bearer sekret%41 \r\nX: %0d%0aY: z\r\n\r\n");
  EXPECT_EQ(parser.head().header("authorization"), "Bearer sekret%41");
  EXPECT_EQ(parser.head().header("x"), "%0d%0aY: z");
  EXPECT_EQ(parser.head().headers.size(), 2U);
}

// A sink that had no room gets the same bytes again.
TEST(RequestParser, ABodyGoesOnWhereItsSinkStopped) {
  class Narrow final : public BodySink {
   public:
    std::size_t take(std::string_view bytes) override {
      const std::size_t some = std::min<std::size_t>(bytes.size(), room);
      text += bytes.substr(0, some);
      room -= some;
      return some;
    }
    std::size_t room = 0;
    std::string text;
  } sink;
  for (const std::string& bytes : {chunked("8\r\nabcdefgh\r\n0\r\n\r\n"), post("Content-Length: 8\r\n", "abcdefgh")}) {
    RequestParser parser;
    sink.text.clear();
    std::size_t used = parser.feed_head(bytes);
    for (int i = 0; i < 20 && parser.state() == RequestParser::State::kBody; ++i) {
      sink.room = i % 2;
      used += parser.feed_body(std::string_view(bytes).substr(used), sink);
    }
    EXPECT_EQ(parser.state(), RequestParser::State::kDone);
    EXPECT_EQ(sink.text, "abcdefgh");
    EXPECT_EQ(used, bytes.size());
  }
}

}  // namespace
}  // namespace kvkeep::server
