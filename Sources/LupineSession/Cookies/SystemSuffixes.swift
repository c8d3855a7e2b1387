internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import Synchronization

/// A list of public suffixes that is read once, when it is first needed.
final class SuffixSource: Sendable {
  private let read: @Sendable () -> PublicSuffixList
  private let known: Locked<PublicSuffixList?>
  private let isKnown: Atomic<Bool>

  init(_ read: @escaping @Sendable () -> PublicSuffixList) {
    self.read = read
    known = Locked(nil)
    isKnown = Atomic(false)
  }

  /// One that is there.
  init(_ list: PublicSuffixList) {
    read = { list }
    known = Locked(list)
    isKnown = Atomic(true)
  }

  /// The list of this system; the rule that does without if there is none.
  static let system = SuffixSource { (try? read(path)) ?? .builtIn }

  static let path = "/usr/share/publicsuffix/public_suffix_list.dat"

  static func read(_ path: String) throws(SessionError) -> PublicSuffixList {
    let bytes = try SmallFile.read(path, limit: PublicSuffixList.sizeLimit)
    let list = PublicSuffixList(reading: bytes.span)
    guard list.count > 0 else {
      throw SessionError(.fileFailed, phase: .file, message: "\(path) has no rule of a list of public suffixes")
    }
    return list
  }

  /// Whether `list` is at hand, and does not wait for a disk.
  var isRead: Bool { isKnown.load(ordering: .acquiring) }

  var list: PublicSuffixList {
    known.withLock { known in
      if let known { return known }
      let list = read()
      known = list
      isKnown.store(true, ordering: .releasing)
      return list
    }
  }
}
