#pragma once

/// Control groups of this process: where they are, and one of its own for the programs that count its traffic.

#include <memory>
#include <string>
#include <utility>

namespace dynamix::telemetry {

/// Directories of the groups that a process is in; empty where a hierarchy is not mounted or does not have it.
struct cgroup_places {
  std::string unified;       ///< version 2
  std::string unified_mount; ///< where that is mounted
  bool unified_seen = false; ///< `unified` is the process's group, and not only as near as a mount shows
  std::string memory;        ///< of whichever version has the controller; as is the next one
  std::string cpu;
};

/// From the texts of /proc/self/cgroup and /proc/self/mountinfo. Pure. A hierarchy may be mounted anywhere, and only a
/// part of it (a container's); version 1 and 2 may stand side by side.
cgroup_places find_cgroups(const std::string& cgroup_text, const std::string& mountinfo_text);
/// Of this process. Where version 2 is not to be seen it is mounted for the process alone, if that may be.
cgroup_places find_own_cgroups();

/// Of another process on this machine, as far as they are mounted here.
cgroup_places find_cgroups_of(int process);

/// The cgroup whose traffic is this process's alone.
class own_cgroup {
public:
  own_cgroup(std::string path, std::string parent, bool made, int descriptor)
      : path_(std::move(path)), parent_(std::move(parent)), made_(made), descriptor_(descriptor) {}
  own_cgroup(const own_cgroup&) = delete;
  own_cgroup& operator=(const own_cgroup&) = delete;
  ~own_cgroup();

  int descriptor() const { return descriptor_; } ///< of its directory
  const std::string& path() const { return path_; }

private:
  const std::string path_;
  const std::string parent_; ///< that the process came from; empty: it has not moved
  const bool made_;
  const int descriptor_;
};

/// A new group of version 2 below the present one, named after the process, with the process in it; or the present one,
/// where no group can be made and nobody else is in it. Call before the first socket is made: a socket belongs to the
/// group that its maker was in. When it goes, the process returns and the group is removed. Null with the reason in
/// `problem`.
std::unique_ptr<own_cgroup> enter_own_cgroup(std::string& problem);

/// A new group like that, in which nobody is yet: a command may begin in it. When this goes, the group is removed,
/// unless something that the command left behind is still in it. Null where none can be made.
std::unique_ptr<own_cgroup> make_cgroup_for_command();

/// The path of `file` in `group` or in the nearest group above it where it is and has `word` in it; empty where it is
/// in none. A group of version 2 has a controller's files only where all above it pass the controller on, and what
/// those above account for and limit holds for it, too.
std::string nearest_file(const std::string& group, const std::string& file, const std::string& word);

/// Removes the groups beside or below the present one that processes left which did not live to do it themselves.
/// Returns how many.
int remove_abandoned_cgroups();

} // namespace dynamix::telemetry
