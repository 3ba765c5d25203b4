#include "telemetry/cgroup.hpp"

#include "telemetry/small_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <thread>
#include <utility>
#include <vector>

namespace dynamix::telemetry {
namespace {

constexpr std::string_view own_prefix = "dynamix-";

struct mounted {
  std::string root; ///< of the hierarchy that is seen at `point`
  std::string point;
  std::string type;
  std::string options; ///< of the file system, as ",rw,memory,"
};

/// Lines of mountinfo: id parent device root point options... - type source super-options (proc_pid_mountinfo(5)).
std::vector<mounted> cgroup_mounts(const std::string& text) {
  std::vector<mounted> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skipped;
    std::string source;
    mounted mount;
    words >> skipped >> skipped >> skipped >> mount.root >> mount.point;
    while (words >> skipped && skipped != "-") {
    }
    words >> mount.type >> source >> mount.options;
    mount.options = "," + mount.options + ",";
    if (mount.type == "cgroup" || mount.type == "cgroup2")
      found.push_back(std::move(mount));
  }
  return found;
}

bool is_below(const std::string& path, const std::string& root) {
  return path == root || path.starts_with(root + "/");
}

/// Whether the group `path` of a hierarchy is seen there: of a part of it, what lies above is not, nor what lies
/// outside of the process's own namespace ("/../job").
bool sees(const mounted& mount, const std::string& path) {
  return !is_below(path, "/..") && (mount.root == "/" || mount.root.empty() || is_below(path, mount.root));
}

/// Where the group is seen, or else what is.
std::string place(const mounted& mount, const std::string& path) {
  if (!sees(mount, path) || path == "/")
    return mount.point;
  return mount.point + (mount.root == "/" ? path : path.substr(mount.root.size()));
}

void find_in(const std::string& path, const std::string& controllers, const std::vector<mounted>& mounts,
             cgroup_places& found) {
  // The newest mount hides others at its place; one that does not see the group is the last resort.
  auto ordered = mounts;
  std::stable_partition(ordered.begin(), ordered.end(), [&](const auto& mount) { return !sees(mount, path); });
  for (const auto& mount : ordered) {
    const bool unified = mount.type == "cgroup2";
    if (unified != controllers.empty())
      continue;
    if (unified) {
      found.unified = place(mount, path);
      found.unified_mount = mount.point;
      found.unified_seen = sees(mount, path);
    } else if (controllers.find(",memory,") != std::string::npos && mount.options.find(",memory,") != std::string::npos)
      found.memory = place(mount, path);
    else if (controllers.find(",cpu,") != std::string::npos && mount.options.find(",cpu,") != std::string::npos)
      found.cpu = place(mount, path);
  }
}

std::string error_text(const std::string& what) {
  return what + ": " + std::strerror(errno);
}

bool move_process(const std::string& group) {
  const int file = ::open((group + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  const bool moved = ::write(file, "0", 1) == 1;
  const int error = errno;
  ::close(file);
  errno = error;
  return moved;
}

/// Removes the groups in `directory` whose processes are gone. A group with a process in it cannot be removed.
int remove_abandoned_below(const std::string& directory) {
  int removed = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(own_prefix))
      continue;
    const auto number = name.substr(own_prefix.size());
    int process = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), process);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size() ||
        std::filesystem::exists("/proc/" + number, ignored))
      continue;
    removed += ::rmdir(entry.path().c_str()) == 0 ? 1 : 0;
  }
  return removed;
}

std::unique_ptr<own_cgroup> open_group(const std::string& path, const std::string& parent, bool made,
                                       std::string& problem) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0)
    return std::make_unique<own_cgroup>(path, parent, made, descriptor);
  problem = error_text("cannot open " + path);
  return nullptr;
}

/// Version 2 where it is not mounted, or was hidden as `ip netns exec` does: a mount of this process's own, which is in
/// no directory and goes with it. Takes CAP_SYS_ADMIN and Linux 5.2. Empty where it cannot be had.
std::string mount_of_own() {
  const int context = ::fsopen("cgroup2", FSOPEN_CLOEXEC);
  if (context < 0)
    return "";
  const int mount =
      ::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0 ? ::fsmount(context, FSMOUNT_CLOEXEC, 0) : -1;
  ::close(context);
  return mount < 0 ? "" : fmt::format("/proc/self/fd/{}", mount);
}

bool is_version_2(const std::string& directory) {
  struct statfs about {};
  return ::statfs(directory.c_str(), &about) == 0 && about.f_type == CGROUP2_SUPER_MAGIC;
}

/// A new group, named after this process; empty with errno where none can be made.
std::string group_below(const std::string& parent) {
  auto group = fmt::format("{}/{}{}", parent, own_prefix, ::getpid());
  return ::mkdir(group.c_str(), 0755) == 0 || errno == EEXIST ? group : "";
}

bool alone_in(const std::string& group) {
  return read_small_file(group + "/cgroup.procs") == fmt::format("{}\n", ::getpid());
}

} // namespace

own_cgroup::~own_cgroup() {
  ::close(descriptor_);
  if (!made_ || (!parent_.empty() && !move_process(parent_)))
    return;
  constexpr int tries = 100; // a thread that has just ended cannot be moved, and stays a little longer
  for (int i = 0; i < tries && ::rmdir(path_.c_str()) != 0 && errno == EBUSY; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

cgroup_places find_cgroups(const std::string& cgroup_text, const std::string& mountinfo_text) {
  const auto mounts = cgroup_mounts(mountinfo_text);
  cgroup_places found;
  std::istringstream lines(cgroup_text);
  for (std::string line; std::getline(lines, line);) { // number:controllers:path (cgroups(7))
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    find_in(line.substr(second + 1), controllers.empty() ? "" : "," + controllers + ",", mounts, found);
  }
  if (found.memory.empty())
    found.memory = found.unified;
  if (found.cpu.empty())
    found.cpu = found.unified;
  return found;
}

cgroup_places find_own_cgroups() {
  const auto groups = read_small_file("/proc/self/cgroup");
  const auto mounts = read_small_file("/proc/self/mountinfo");
  auto found = find_cgroups(groups, mounts);
  if (!is_version_2(found.unified)) { // something else is mounted over it
    found.unified.clear();
    found.unified_seen = false;
  }
  if (!found.unified.empty() || groups.empty())
    return found;
  static const std::string own = mount_of_own(); // while the process may: privileges are dropped later
  return own.empty() ? found : find_cgroups(groups, mounts + "\n0 0 0:0 / " + own + " rw - cgroup2 none rw\n");
}

cgroup_places find_cgroups_of(int process) {
  return find_cgroups(read_small_file(fmt::format("/proc/{}/cgroup", process)),
                      read_small_file("/proc/self/mountinfo"));
}

std::unique_ptr<own_cgroup> enter_own_cgroup(std::string& problem) {
  const auto present = find_own_cgroups();
  const auto& parent = present.unified;
  if (parent.empty()) {
    problem = read_small_file("/proc/self/cgroup").empty() ? "/proc is not mounted" : "cgroup version 2 is not mounted";
    return nullptr;
  }
  if (!present.unified_seen) {
    problem = "this process's group is not below " + present.unified_mount;
    return nullptr;
  }
  remove_abandoned_below(parent);
  const auto group = group_below(parent);
  const bool made = !group.empty();
  if (made && move_process(group))
    return open_group(group, parent, true, problem);
  problem = error_text(made ? "cannot enter " + group : "cannot make a group in " + parent);
  if (made)
    ::rmdir(group.c_str());
  if (alone_in(parent))
    return open_group(parent, "", false, problem);
  return nullptr;
}

std::unique_ptr<own_cgroup> make_cgroup_for_command() {
  const auto present = find_own_cgroups();
  const auto group = present.unified_seen ? group_below(present.unified) : "";
  std::string problem;
  return group.empty() ? nullptr : open_group(group, "", true, problem);
}

std::string nearest_file(const std::string& group, const std::string& file, const std::string& word) {
  std::error_code ignored;
  for (std::filesystem::path at = group; std::filesystem::exists(at / "cgroup.procs", ignored); at = at.parent_path())
    if (const auto text = read_small_file(at / file); !text.empty() && text.find(word) != std::string::npos)
      return at / file;
  return "";
}

int remove_abandoned_cgroups() {
  const auto present = find_own_cgroups();
  return present.unified_seen ? remove_abandoned_below(present.unified) : 0;
}

} // namespace dynamix::telemetry
