internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import Synchronization

/// A list of public suffixes that is read once, when it is first needed.
final class SuffixSource: Sendable {
  private let read: @Sendable () -> PublicSuffixList?
  private let known: Locked<PublicSuffixList?>
  private let isKnown: Atomic<Bool>

  /// - Parameter read: gives nil while the list cannot be had, for want of descriptors or memory: it is asked again then.
  init(_ read: @escaping @Sendable () -> PublicSuffixList?) {
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
  static let system = SuffixSource {
    do throws(SessionError) {
      return try read(path)
    } catch {
      return isPassing(error.underlying as? IOError) ? nil : .builtIn
    }
  }

  /// A shortage that passes says nothing of the file: cookies for its suffixes would be taken and sent for as long as the process runs.
  static func isPassing(_ error: IOError?) -> Bool {
    switch error {
    case .descriptorLimit, .outOfMemory: true
    default: false
    }
  }

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

  /// Nil while it cannot be had.
  var list: PublicSuffixList? {
    known.withLock { known -> PublicSuffixList? in
      if let known { return known }
      guard let list = read() else { return nil }
      known = list
      isKnown.store(true, ordering: .releasing)
      return list
    }
  }
}
