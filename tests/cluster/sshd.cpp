#include "tests/cluster/sshd.hpp"

#include "links/free_port.hpp"
#include "storage/atomic_file.hpp"
#include "tests/cluster/trial.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace dynamix::cluster_test {
namespace {

int run_shell(const std::string& command, const std::string& output) {
  node::child_process process;
  EXPECT_EQ(process.start({.program = "/bin/sh", .arguments = {"-c", command}, .output = output}), "");
  EXPECT_TRUE(wait_until([&] { return !process.running(); }));
  return process.poll()->number;
}

} // namespace

void sshd::start(const std::string& directory, const std::string& shell) {
  directory_ = directory;
  port_ = links::take_free_port();
  const auto in = [&](const char* name) { return directory + "/" + name; };
  for (const auto* key : {"machine", "user"})
    ASSERT_EQ(run_shell(fmt::format("ssh-keygen -q -t ed25519 -N '' -f {}", in(key)), in("shell.log")), 0);
  std::filesystem::copy_file(in("user.pub"), in("authorized"));
  if (geteuid() == 0) // where sshd has its children without privileges
    std::filesystem::create_directories("/run/sshd");
  const auto text = fmt::format("Port {}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n"
                                "StrictModes no\nUsePAM {}\nPasswordAuthentication no\nPermitRootLogin yes\n",
                                port_, in("machine"), in("authorized"), geteuid() == 0 ? "yes" : "no") +
                    (shell.empty() ? ""
                                   : fmt::format("ForceCommand exec env -u SHLVL HOME={} {} -c "
                                                 "\"$SSH_ORIGINAL_COMMAND\"\n",
                                                 in("home"), shell));
  ASSERT_EQ(storage::write_file_atomically(in("sshd.conf"), text), "");
  ASSERT_EQ(
      process_.start({.program = program, .arguments = {"-D", "-e", "-f", in("sshd.conf")}, .output = in("sshd.log")}),
      "");
  ASSERT_TRUE(wait_until([&] { return contents_of(in("sshd.log")).find("Server listening") != std::string::npos; }))
      << contents_of(in("sshd.log"));
}

std::string sshd::ssh() const {
  return fmt::format("ssh -F none -p {} -i {}/user -oIdentitiesOnly=yes -oStrictHostKeyChecking=no "
                     "-oUserKnownHostsFile=/dev/null -oLogLevel=ERROR",
                     port_, directory_);
}

} // namespace dynamix::cluster_test
