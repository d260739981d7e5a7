#include "oplog/sqlite/filesystem.h"

#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <cerrno>

namespace steelyard::oplog::sqlite {
namespace {

struct RefusedFilesystem {
  std::uint64_t magic;
  std::string_view name;
};

// Numbers as the kernel and the filesystems' authors publish them; several are not in <linux/magic.h>.
constexpr RefusedFilesystem kRefused[] = {
    // network and cluster
    {0x6969, "NFS"},
    {0x517B, "SMB"},
    {0xFF534D42, "CIFS"},
    {0xFE534D42, "SMB2"},
    {0x00C36400, "Ceph"},
    {0x0BD00BD0, "Lustre"},
    {0x47504653, "GPFS"},
    {0x013111A8, "IBRIX"},
    {0x01161970, "GFS2"},
    {0x7461636F, "OCFS2"},
    {0x5346414F, "AFS"},
    {0x6B414653, "kAFS"},
    {0x73757245, "Coda"},
    {0x01021997, "9P"},
    {0xAAD7AAEA, "PanFS"},
    {0x61756673, "AUFS"},
    {0x19830326, "BeeGFS"},
    {0x20030528, "OrangeFS"},
    {0x786F4256, "vboxsf"},
    {0xBACBACBC, "vmhgfs"},
    {0x564C, "NCP"},
    {0xA501FCF5, "VxFS"},
    // in user space
    {0x65735546, "FUSE"},
    {0x65735543, "FUSE control"},
    {0x6A656A63, "virtiofs"},
    // virtual ones, which keep no files
    {0x9FA0, "proc"},
    {0x62656572, "sysfs"},
    {0x64626720, "debugfs"},
    {0x74726163, "tracefs"},
    {0x73636673, "securityfs"},
    {0x62656570, "configfs"},
    {0x27E0EB, "cgroup"},
    {0x63677270, "cgroup2"},
    {0x1CD1, "devpts"},
    {0x19800202, "mqueue"},
    {0xCAFE4A11, "bpf"},
    {0x6E736673, "nsfs"},
    {0x50495045, "pipefs"},
    {0x6165676C, "pstore"},
    {0xDE5E81E4, "efivarfs"},
    {0x958458F6, "hugetlbfs"},
};

}  // namespace

std::optional<std::string_view> find_refused_filesystem(std::uint64_t magic) {
  for (const RefusedFilesystem& refused : kRefused) {
    if (refused.magic == (magic & 0xffffffffU)) return refused.name;
  }
  return std::nullopt;
}

Status check_filesystem(const std::string& folder) {
  struct statfs info {};
  if (statfs(folder.c_str(), &info) != 0) return errno_status(errno, "statfs", folder);
  const auto name = find_refused_filesystem(static_cast<std::uint64_t>(info.f_type));
  if (!name) return Status();
  return Status(Code::kUnavailable,
                folder + ": the catalog lies on a filesystem of type " + std::string(*name) + ", wanted a local disk",
                "put the store on a local disk and set cold.path to the shared folder");
}

Result<bool> is_read_only_mount(const std::string& folder) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return errno_status(errno, "statvfs", folder);
  return (info.f_flag & ST_RDONLY) != 0;
}

}  // namespace steelyard::oplog::sqlite
