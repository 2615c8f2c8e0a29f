# A formula for Homebrew, on macOS and Linux. Untried: brew does not run where kvkeep is developed.
#
#   brew install --HEAD ./packaging/homebrew/kvkeep.rb
#
# It builds the checkout that it lies in; a tap would name an archive of a release instead.
class Kvkeep < Formula
  desc "Server for GGUF models that never prefills the same prefix twice"
  homepage "https://kvkeep.example" # a tap names the place of the project here
  license "MIT"
  head "file://#{File.expand_path("../..", __dir__)}", using: :git, branch: "main"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on "openssl@3"
  depends_on "pkgconf" => :build
  depends_on "blake3"
  depends_on "boost"
  depends_on "fmt"
  depends_on "hiredis"
  depends_on "llama.cpp"
  depends_on "spdlog"
  depends_on "utf8proc"
  depends_on "webp"
  depends_on "xxhash"
  depends_on "zstd"

  uses_from_macos "curl"
  uses_from_macos "ncurses"
  uses_from_macos "zlib"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DKVKEEP_BUILD_TESTS=OFF", "-DKVKEEP_BUILD_BENCH=OFF",
           "-DKVKEEP_WERROR=OFF", *std_cmake_args
    system "cmake", "--build", "build", "--target", "kvkeep"
    system "cmake", "--install", "build"
  end

  service do
    run [opt_bin/"kvkeep", "serve"]
    environment_variables LLAMA_ARG_MODEL: etc/"kvkeep/model.gguf"
    keep_alive successful_exit: false
    log_path var/"log/kvkeep.log"
    error_log_path var/"log/kvkeep.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/kvkeep --version") unless head?
    system bin/"kvkeep", "model", "make", "tiny.gguf"
    assert_path_exists testpath/"tiny.gguf"
  end
end
