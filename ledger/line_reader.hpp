#pragma once

/// The lines of a ledger in their order, whatever parts it is in (ledger/segments.hpp), also while it is written.

#include <cstdint>
#include <memory>
#include <string>

namespace dynamix::ledger {

class line_reader {
public:
  /// `path`: the ledger, or one segment alone. It need not exist yet. A line of more bytes is passed over.
  /// `through_links`: as in storage::open_to_read.
  explicit line_reader(std::string path, std::size_t line_bytes_most = 64U << 20, bool through_links = true);
  line_reader(const line_reader&) = delete;
  line_reader& operator=(const line_reader&) = delete;
  ~line_reader();

  /// The next whole line, without its newline. False where there is none, or none yet: what is asked again goes on. A
  /// part's last line that is torn is left out.
  bool next(std::string& line);
  /// Goes to the first line behind `place` or, where that is compressed, to an earlier one.
  void skip_to(std::uint64_t place);
  /// Behind all that is there now, with the rest of a torn line, without reading it.
  void skip_to_end();

  /// The place behind the last line that was read. It rises, until another ledger takes the path.
  std::uint64_t position() const;
  /// Of the ledger as far as it was seen.
  std::uint64_t size() const;
  /// Whether another ledger has taken the path since this was asked last; it is read from its beginning.
  bool began_anew();
  /// Why a part cannot be read to its end, and where it stopped: file, place, what is wrong. Asked once each; reading
  /// goes on with the next part. The newest part is tried again at every call of `next`, which is told at the first
  /// failure, and with their number once it can be read again.
  std::string take_problem();

private:
  class part;
  bool fill();
  bool open_at(std::uint64_t place);
  bool look_whether_it_ended();
  void note_attempt(bool failed, std::string problem);

  std::string path_;
  std::size_t line_bytes_most_;
  bool through_links_;
  std::unique_ptr<part> part_;
  std::string buffer_;        ///< read, and not handed out
  std::size_t taken_ = 0;     ///< of `buffer_`
  std::size_t searched_ = 0;  ///< of `buffer_`: no newline between `taken_` and here
  std::uint64_t place_ = 0;   ///< of the buffer's first byte
  std::uint64_t size_ = 0;    ///< of the ledger
  bool passing_over_ = false; ///< the rest of a line
  bool anew_ = false;
  std::uint64_t failures_ = 0; ///< of reading the newest part, one behind the other
  std::string problem_;
};

} // namespace dynamix::ledger
