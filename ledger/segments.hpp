#pragma once

/// The older parts of a ledger that has a size limit. The newest part is the ledger's own file, `windows.jsonl`, which
/// is appended to; when it has grown it becomes a segment beside it and is compressed. A segment's name tells the place
/// of its first byte in the ledger, so that places keep their meaning when old segments are dropped.

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::ledger {

/// How large the parts of a ledger that may take up `keep_bytes` get before they become segments.
std::uint64_t segment_bytes_of(std::uint64_t keep_bytes);

/// A larger part never becomes a segment: gzip says no more of its text's size.
constexpr std::uint64_t segment_bytes_max = 0xffffffff;

struct segment {
  std::uint64_t begin = 0; ///< place of its first byte in the ledger
  std::string path;        ///< DIRECTORY/windows-BEGIN.jsonl, with .gz behind it once it is compressed
  bool packed = false;
  std::uint64_t file_bytes = 0;
  std::uint64_t text_bytes = 0; ///< not compressed; of a damaged file what it says
};

/// The whole segments of a ledger, oldest first. One that is not compressed yet and still has the ledger's own name,
/// since whoever rotated it died in between, is none; of two forms of one segment the compressed one counts.
std::vector<segment> segments_of(const std::string& ledger);

/// The place in the ledger where its own file begins.
std::uint64_t newest_part_begin(const std::vector<segment>& segments);

std::string segment_path(const std::string& ledger, std::uint64_t begin);

/// Compresses the segments that are not, ends what a rotation or a compression has left that died (the file that it was
/// writing once that is an hour old: another process may be writing one now), and drops the oldest until all fit into
/// `keep_bytes` beside the part that grows and the one that is being compressed. Of the first segment the first row
/// stays, which says what run it is. Returns what went wrong; nothing is lost then.
std::string pack_segments(const std::string& ledger, std::uint64_t keep_bytes);

} // namespace dynamix::ledger
