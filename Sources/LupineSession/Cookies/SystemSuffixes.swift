internal import LupineIO
internal import LupineRules

/// The list of public suffixes of this system.
enum SystemSuffixes {
  static let path = "/usr/share/publicsuffix/public_suffix_list.dat"

  /// Read once, when the first cookie comes; the rule that does without if there is no list.
  static let list = (try? read(path)) ?? .builtIn

  static func read(_ path: String) throws(SessionError) -> PublicSuffixList {
    let bytes = try SmallFile.read(path, limit: PublicSuffixList.sizeLimit)
    let list = PublicSuffixList(reading: bytes.span)
    guard list.count > 0 else {
      throw SessionError(.fileFailed, phase: .file, message: "\(path) has no rule of a list of public suffixes")
    }
    return list
  }
}
