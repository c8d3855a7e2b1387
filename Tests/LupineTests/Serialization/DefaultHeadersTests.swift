import Foundation
import Testing

@testable import Lupine

@Suite struct DefaultHeadersTests {
  /// The first has q=1, each further 0.1 less; none after 0.5.
  @Test func languagesAreRanked() {
    #expect(DefaultHeaders.acceptLanguage([]) == "")
    #expect(DefaultHeaders.acceptLanguage(["en"]) == "en;q=1")
    #expect(DefaultHeaders.acceptLanguage(["en", "fr"]) == "en;q=1, fr;q=0.9")
    #expect(
      DefaultHeaders.acceptLanguage(["a", "b", "c", "d", "e", "f", "g"])
        == "a;q=1, b;q=0.9, c;q=0.8, d;q=0.7, e;q=0.6, f;q=0.5")
  }

  static let environments: [(environment: [String: String], languages: [String]?)] = [
    ([:], nil), (["LANG": "C"], nil), (["LANG": "C.UTF-8", "LANGUAGE": "de"], nil), (["LANG": "POSIX"], nil),
    (["LANG": "de_DE.UTF-8"], ["de-DE"]), (["LANG": "de_DE@euro", "LC_ALL": ""], ["de-DE"]),
    (["LANG": "de_DE", "LC_ALL": "fr_CA.UTF-8"], ["fr-CA"]), (["LANG": "de_DE", "LC_MESSAGES": "it"], ["it"]),
    (["LANG": "de_DE", "LANGUAGE": "de:fr_FR::en"], ["de", "fr-FR", "en"]),
    (["LANG": "de_DE", "LANGUAGE": "de\r\nX: y"], ["de-DE"]), (["LANG": "/usr/share"], nil),
  ]

  /// The environment is read as gettext reads it.
  @Test(arguments: environments) func languagesOfTheEnvironment(environment: [String: String], languages: [String]?) {
    #expect(DefaultHeaders.languages(environment) == languages)
  }

  static let agents: [(name: String, version: String?, agent: String)] = [
    ("app", "1.2", "app/1.2 (Linux 6.1.0) Lupine/0.1"), ("app", nil, "app (Linux 6.1.0) Lupine/0.1"),
    ("my app", nil, "my-app (Linux 6.1.0) Lupine/0.1"), ("", nil, "program (Linux 6.1.0) Lupine/0.1"),
    ("Müller", nil, "Muller (Linux 6.1.0) Lupine/0.1"), ("a\r\nb", "1(", "a--b/1- (Linux 6.1.0) Lupine/0.1"),
  ]

  /// Names become tokens.
  @Test(arguments: agents) func userAgents(name: String, version: String?, agent: String) {
    #expect(DefaultHeaders.userAgent(name: name, version: version, system: "6.1.0") == agent)
  }

  /// A serializer says both.
  @Test func serializersHaveThem() {
    let serializer = HTTPRequestSerializer()
    #expect(serializer.value(forHeader: "User-Agent")?.contains("(Linux ") == true)
    #expect(serializer.value(forHeader: "Accept-Language")?.contains(";q=1") == true)
    #expect(serializer.headers.count == 2)
  }
}
