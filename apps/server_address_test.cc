#include "server_address.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

ServerAddress address_of(const std::vector<std::string>& arguments, const os::Environment& environment = {}) {
  ServerAddress address;
  const FlagSet flags("kvkeep ask", "Asks.", address_flags(address));
  const auto wants_help = parse_with_address(flags, address, arguments, environment);
  EXPECT_TRUE(wants_help.ok()) << (wants_help.ok() ? "" : wants_help.error().message);
  return address;
}

TEST(ServerAddress, IsThatOfThisMachineByDefault) {
  EXPECT_EQ(address_of({}).url, "http://127.0.0.1:8080");
  EXPECT_EQ(address_of({}).api_key + address_of({}).api_key_file, "");
}

TEST(ServerAddress, IsTheBaseUrlThatClientsHave) {
  for (const char* url : {"http://box:1", "http://box:1/", "http://box:1/v1", "http://box:1/v1/"}) {
    EXPECT_EQ(address_of({"--url", url}).url, "http://box:1") << url;
  }
  EXPECT_EQ(address_of({}, {{"KVKEEP_URL", "http://box:2/proxy"}}).url, "http://box:2/proxy");
  EXPECT_EQ(address_of({"--url", "http://box:1"}, {{"KVKEEP_URL", "http://box:2"}}).url, "http://box:1");
}

TEST(ServerAddress, TakesTheKeysOfServe) {
  EXPECT_EQ(address_of({"--api-key-file", "keys"}).api_key_file, "keys");
  EXPECT_EQ(address_of({}, {{"LLAMA_ARG_API_KEY_FILE", "keys"}}).api_key_file, "keys");
  EXPECT_EQ(address_of({}, {{"LLAMA_API_KEY", "sesame"}}).api_key, "sesame");
  EXPECT_EQ(address_of({}, {{"LLAMA_API_KEY", "sesame,other"}}).api_key, "sesame") << "serve takes a list there";
}

TEST(ServerAddress, AKeyThatIsTypedReplacesThoseOfVariables) {
  const os::Environment both{{"LLAMA_API_KEY", "sesame"}, {"LLAMA_ARG_API_KEY_FILE", "keys"}};
  const ServerAddress typed = address_of({"--api-key", "mine"}, both);
  EXPECT_EQ(typed.api_key, "mine");
  EXPECT_EQ(typed.api_key_file, "") << "else its key would be sent";
  EXPECT_EQ(address_of({"--api-key-file", "my keys"}, both).api_key_file, "my keys");
}

TEST(ServerAddress, IsHelpedWith) {
  ServerAddress address;
  const FlagSet flags("kvkeep ask", "Asks.", address_flags(address));
  EXPECT_TRUE(parse_with_address(flags, address, {"--help"}, {}).value());
  EXPECT_FALSE(parse_with_address(flags, address, {"--ulr", "x"}, {}).ok());
}

}  // namespace
}  // namespace kvkeep::cli
