#include "node/launch/service_manager.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/notify_socket.hpp"

namespace dynamix::node {
namespace {

using testing::notify_socket;

TEST(ServiceManager, IsToldOverItsSocket) {
  const temporary_directory directory;
  const notify_socket socket(directory.path() + "/notify");
  const service_manager manager;
  manager.tell("READY=1\nSTATUS=there");
  EXPECT_EQ(socket.heard(), "READY=1\nSTATUS=there");
  EXPECT_EQ(manager.watchdog_interval().count(), 0) << "it has no watchdog";
}

TEST(ServiceManager, MayHaveAnAbstractSocket) {
  const notify_socket socket("@dynamix-" + std::to_string(::getpid()));
  service_manager().tell("WATCHDOG=1");
  EXPECT_EQ(socket.heard(), "WATCHDOG=1");
}

TEST(ServiceManager, HearsTwiceInItsTime) {
  const notify_socket socket("@dynamix-" + std::to_string(::getpid()));
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  EXPECT_EQ(service_manager().watchdog_interval(), std::chrono::seconds(15));
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(service_manager().watchdog_interval(), std::chrono::seconds(15));
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(service_manager().watchdog_interval().count(), 0) << "another process is meant";
  ::unsetenv("WATCHDOG_PID");
  for (const auto* wrong : {"", "-5", "soon", "30000000s"}) {
    ::setenv("WATCHDOG_USEC", wrong, 1);
    EXPECT_EQ(service_manager().watchdog_interval().count(), 0) << wrong;
  }
}

TEST(ServiceManager, NobodyNeedsToBeThere) {
  const notify_socket socket("@dynamix-" + std::to_string(::getpid()));
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  for (const std::string& name : {std::string("relative"), std::string("/nowhere/notify"), std::string(200, '/')}) {
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    service_manager().tell("READY=1");
  }
  ::unsetenv("NOTIFY_SOCKET");
  service_manager().tell("READY=1");
  EXPECT_EQ(service_manager().watchdog_interval().count(), 0) << "nobody to be told";
  EXPECT_EQ(socket.heard(), "");
}

} // namespace
} // namespace dynamix::node
