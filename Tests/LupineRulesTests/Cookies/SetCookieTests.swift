import LupineRules
import LupineTestSupport
import Testing

/// Every case that is dated from now on begins here.
let cookieNow = HTTPDate(seconds: 1_767_225_600)

/// One case of `Cases/set-cookie.md`; the file says how it is written.
struct SetCookieCase: Sendable, CustomStringConvertible {
  var name: String
  var input: [UInt8] = []
  var expected = ""

  var description: String { name }

  static func all() throws -> [SetCookieCase] {
    var cases: [SetCookieCase] = []
    for line in try CaseFile.lines("set-cookie.md") {
      if line.hasPrefix("### ") {
        cases.append(SetCookieCase(name: String(line.dropFirst(4))))
        continue
      }
      guard var last = cases.popLast() else { continue }
      if line.hasPrefix("> ") {
        last.input = try CaseText.unescape(line.dropFirst(2))
      } else if line.hasPrefix("= ") || line.hasPrefix("! ") {
        last.expected = String(line)
      }
      cases.append(last)
    }
    return cases
  }
}

@Suite struct SetCookieTests {
  private static func shown(_ text: String) -> String {
    text.utf8.count > 60 ? "\(text.utf8.count) bytes" : text
  }

  static func show(_ bytes: [UInt8]) -> String {
    let cookie: SetCookie
    do throws(CookieRefusal) {
      cookie = try SetCookieReader.read(bytes.span, now: cookieNow)
    } catch {
      return "! \(reason(error))"
    }
    var text = "= [\(shown(cookie.name))][\(shown(cookie.value))]"
    if let domain = cookie.domain { text += " domain=\(shown(domain))" }
    if let path = cookie.path { text += " path=\(shown(path))" }
    if cookie.isSecure { text += " secure" }
    if cookie.isHTTPOnly { text += " httponly" }
    if cookie.sameSite != .unspecified { text += " samesite=\(cookie.sameSite.rawValue)" }
    if let expiry = cookie.expiry {
      text += expiry <= cookieNow ? " expires=past" : " expires=+\(expiry.seconds - cookieNow.seconds)"
    }
    return text
  }

  /// The case of a refusal with its payload, not its description.
  static func reason(_ refusal: CookieRefusal) -> String {
    switch refusal {
    case .controlByte(let byte): "controlByte(\(byte))"
    case .notUTF8: "notUTF8"
    case .tooLong(let count, let limit): "tooLong(count: \(count), limit: \(limit))"
    case .pathTooLong(let count, let limit): "pathTooLong(count: \(count), limit: \(limit))"
    case .empty: "empty"
    case .ambiguous: "ambiguous"
    case .invalidPath: "invalidPath"
    case .invalidDomain: "invalidDomain"
    case .publicSuffix(let domain): "publicSuffix(\"\(domain)\")"
    case .foreignDomain: "foreignDomain"
    case .secureOverHTTP: "secureOverHTTP"
    case .overwritesSecure: "overwritesSecure"
    case .securePrefix: "securePrefix"
    case .hostPrefix: "hostPrefix"
    case .hiddenPrefix: "hiddenPrefix"
    case .insecureSameSiteNone: "insecureSameSiteNone"
    case .crossSite: "crossSite"
    case .policy: "policy"
    case .tooMany(let limit): "tooMany(limit: \(limit))"
    }
  }

  @Test(arguments: try SetCookieCase.all()) func reads(_ one: SetCookieCase) {
    #expect(Self.show(one.input) == one.expected)
  }

  @Test func thereAreEnoughCases() throws {
    let cases = try SetCookieCase.all()
    #expect(cases.count >= 80)
    #expect(Set(cases.map(\.name)).count == cases.count)
    #expect(cases.allSatisfy { !$0.expected.isEmpty })
  }

  @Test func dates() throws {
    var count = 0
    for line in try CaseFile.lines("cookie-dates.txt") where !line.hasPrefix("#") && line.contains("|") {
      let parts = line.split(separator: "|", omittingEmptySubsequences: false)
      let (text, expected) = (parts[0].dropLast(), parts[1].dropFirst())
      // Relative to a moment shortly before, so that the cap of 400 days shows nothing.
      let now = HTTPDate(seconds: (Int64(expected) ?? 1) - 1)
      let cookie = try SetCookieReader.read("a=b; Expires=\(text)", now: now)
      #expect(cookie.expiry?.seconds == Int64(expected), "\(text)")
      count += 1
    }
    #expect(count >= 60)
  }

  @Test func clocksAtTheEndOfTime() throws {
    for now in [HTTPDate(seconds: .max), HTTPDate(seconds: .min), HTTPDate(seconds: 0)] {
      let aged = try SetCookieReader.read("a=b; Max-Age=99999999999999999999", now: now)
      #expect(try #require(aged.expiry) >= now)
      #expect(try SetCookieReader.read("a=b; Expires=1 Jan 9999 00:00:00", now: now).expiry != nil)
    }
  }

  /// A refusal ends up in logs.
  @Test func refusalsTellNoSecrets() throws {
    let values = ["secret=\u{1}", "=__Host-secret", "a=\(String(repeating: "secret", count: 1000))"]
    for value in values {
      let refusal = try #require(throws: CookieRefusal.self) {
        let cookie = try SetCookieReader.read(value, now: cookieNow)
        let context = CookieContext(url: try URLReader.read("https://a.com/"))
        _ = try CookieRecord(cookie, from: context, suffixes: .builtIn, now: cookieNow)
      }
      #expect(!"\(refusal)".contains("secret"))
    }
  }
}
