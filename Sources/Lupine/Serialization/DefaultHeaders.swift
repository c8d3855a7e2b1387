internal import Foundation
internal import HTTPTypes
internal import LupineSession

/// What a request says of the process and its user when nothing else is set; worked out once.
enum DefaultHeaders {
  static let fields: HTTPFields = {
    let process = ProcessInfo.processInfo
    var fields = HTTPFields()
    let accepted = acceptLanguage(languages(process.environment) ?? Locale.preferredLanguages)
    if !accepted.isEmpty { fields[.acceptLanguage] = accepted }
    let system = process.operatingSystemVersion
    let bundle = Bundle.main.infoDictionary?["CFBundleShortVersionString"] as? String
    fields[.userAgent] = userAgent(
      name: process.processName, version: bundle,
      system: "\(system.majorVersion).\(system.minorVersion).\(system.patchVersion)")
    return fields
  }()

  /// `en;q=1, fr;q=0.9`: at most six, none below 0.5.
  static func acceptLanguage(_ languages: [String]) -> String {
    languages.prefix(6).enumerated().map { index, language in
      "\(language);q=\(index == 0 ? "1" : "0.\(10 - index)")"
    }.joined(separator: ", ")
  }

  /// The languages that the environment names, best first, as gettext reads it: `LANGUAGE`, a list, unless the locale is C; the locale is the
  /// first set of `LC_ALL`, `LC_MESSAGES` and `LANG`. Nil if it names none.
  static func languages(_ environment: [String: String]) -> [String]? {
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
    guard let locale, let language = tag(locale) else { return nil }
    let list = (environment["LANGUAGE"] ?? "").split(separator: ":").compactMap { tag(String($0)) }
    return list.isEmpty ? [language] : list
  }

  /// `de_DE.UTF-8@euro` as `de-DE`; nil for C, POSIX and what is no name of a locale.
  static func tag(_ locale: String) -> String? {
    let name = locale.prefix { $0 != "." && $0 != "@" }
    guard name != "C", name != "POSIX", !name.isEmpty,
      name.utf8.allSatisfy({ UInt8(ascii: "_") == $0 || UInt8(ascii: "-") == $0 || isAlphanumeric($0) })
    else { return nil }
    return String(name.map { $0 == "_" ? "-" : $0 })
  }

  /// `program/1.2 (Linux 6.1.0) Lupine/0.1`: RFC 9110 section 10.1.5. A program without a version is named without one.
  static func userAgent(name: String, version: String?, system: String) -> String {
    let transform = StringTransform("Any-Latin; Latin-ASCII; [:^ASCII:] Remove")
    let latin = name.applyingTransform(transform, reverse: false) ?? name
    let product = token(latin)
    let program = version.map { "\(product)/\(token($0))" } ?? product
    let library = SessionConfiguration.default.userAgent.map { " \($0)" } ?? ""
    return "\(program) (Linux \(system))\(library)"
  }

  /// The text with everything that a token has not replaced by `-`.
  private static func token(_ text: String) -> String {
    let bytes = text.unicodeScalars.map { scalar -> UInt8 in
      guard scalar.isASCII else { return UInt8(ascii: "-") }
      let byte = UInt8(scalar.value)
      return isAlphanumeric(byte) || "!#$%&'*+-.^_`|~".utf8.contains(byte) ? byte : UInt8(ascii: "-")
    }
    return bytes.isEmpty ? "program" : String(decoding: bytes, as: UTF8.self)
  }

  private static func isAlphanumeric(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: false
    }
  }
}
