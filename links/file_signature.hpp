#pragma once

/// Whose a file is: the signature of the host that wrote it lies beside it, with the host's certificate. Ed25519 over
/// the file's SHA-256.

#include "storage/atomic_file.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace dynamix::links {

/// A writer of files that others may not read, signed with the keys of `host` in its own `directory` as they are at
/// that time. The file comes first: who is interrupted leaves a file without a signature, never one with a wrong one.
storage::file_writer signing_writer(std::string directory, std::string host);

struct signature_check {
  std::string problem; ///< why the file is not to be used; empty: it may be
  std::string signer;  ///< the host that has signed it; empty where nobody has
};

/// Looks at the signature of the file `path` with the content `bytes`. Every host of an authority that `host` accepts
/// may have signed it, whenever; a certificate that has expired since then counts.
signature_check check_signature(const std::string& path, std::span<const std::uint8_t> bytes,
                                const std::string& directory, const std::string& host);

} // namespace dynamix::links
