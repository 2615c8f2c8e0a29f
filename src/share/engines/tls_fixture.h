#pragma once

// A Valkey server that speaks TLS only, with a certificate of a CA of its own, and asks for a password.

#include <string>

#include "os/network.h"
#include "share/engines/engine_url.h"
#include "share/engines/valkey_server_fixture.h"

namespace kvkeep::share {

// A CA, and a certificate of it for `host`; files ca.crt, s.crt and s.key.
class Certificates {
 public:
  explicit Certificates(const std::string& host = "localhost") {
    run_tool("openssl", {"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                         "-subj", "/CN=CA of a test", "-keyout", path("ca.key"), "-out", path("ca.crt")});
    run_tool("openssl", {"req",
                         "-x509",
                         "-CA",
                         path("ca.crt"),
                         "-CAkey",
                         path("ca.key"),
                         "-newkey",
                         "ec",
                         "-pkeyopt",
                         "ec_paramgen_curve:P-256",
                         "-nodes",
                         "-days",
                         "2",
                         "-subj",
                         "/CN=" + host,
                         "-addext",
                         (os::is_address(host) ? "subjectAltName=IP:" : "subjectAltName=DNS:") + host,
                         "-addext",
                         "basicConstraints=critical,CA:FALSE",
                         "-keyout",
                         path("s.key"),
                         "-out",
                         path("s.crt")});
  }
  std::string path(const std::string& name) const { return folder_.path() + '/' + name; }

 private:
  os::TemporaryDirectory folder_ = *os::TemporaryDirectory::make("kvkeep-ca-");
};

class TlsServer {
 public:
  explicit TlsServer(const std::string& certified_host = "localhost")
      : certificates_(certified_host),
        server_({"--tls-cert-file", certificates_.path("s.crt"), "--tls-key-file", certificates_.path("s.key"),
                 "--tls-ca-cert-file", certificates_.path("ca.crt"), "--tls-auth-clients", "no", "--requirepass",
                 "open sesame"},
                true) {}
  std::string url() const { return server_.url() + "?ca=" + certificates_.path("ca.crt"); }
  std::string url_with(const Certificates& others) const { return server_.url() + "?ca=" + others.path("ca.crt"); }
  static EngineSecrets secrets() { return {.password = "open sesame"}; }

 private:
  Certificates certificates_;
  ValkeyServer server_;
};

}  // namespace kvkeep::share
