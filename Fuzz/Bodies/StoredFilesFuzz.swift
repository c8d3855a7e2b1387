internal import LupineIO
internal import LupineRules
internal import LupineSession

/// Oracle: a file of credentials is taken as a whole or not at all, and no refusal repeats anything of it; each credential stands in its own
/// space and no other, as a reader of its own finds it in the file; what is kept of a file, credentials or the cookies of a session, is written
/// as a file that reads back as the same, and is written the same again.
///
/// The lowest bit of the first byte chooses: credentials or cookies.
package enum StoredFilesFuzz {
  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    if choice & 1 == 0 { credentials(rest) } else { cookies(rest) }
  }

  // MARK: Credentials

  private static func credentials(_ bytes: [UInt8]) {
    let storage = CredentialStorage()
    do throws(SessionError) {
      try storage.load(json: bytes)
    } catch {
      precondition(error.code == .fileFailed && storage.protectionSpaces.isEmpty, "half of a file was taken")
      let words = ["this is no JSON object", "credentials of version ", "credential "]
      precondition(words.contains { error.message.hasPrefix($0) } && error.message.utf8.count < 100, "it says too much")
      return
    }
    let again = CredentialStorage()
    guard let written = try? storage.json(), (try? again.load(json: written)) != nil else {
      preconditionFailure("what was written cannot be read")
    }
    precondition((try? again.json()) == written, "writing is not stable")
    precondition(Set(again.protectionSpaces) == Set(storage.protectionSpaces), "a space was lost")
    for space in storage.protectionSpaces {
      precondition(again.credentials(for: space) == storage.credentials(for: space), "a credential was lost")
      precondition(again.defaultCredential(for: space) == storage.defaultCredential(for: space), "another default")
    }
    checkPlaces(bytes, storage)
  }

  /// Reads the file with the other reader of JSON.
  private static func checkPlaces(_ bytes: [UInt8], _ storage: CredentialStorage) {
    guard let file = try? JSONReader.read(bytes, depthLimit: 8, valueLimit: 2_000), isPlain(file) else { return }
    var wanted: [ProtectionSpace: [String: Credential]] = [:]
    for element in file["credentials"]?.array ?? [] {
      let method = element["method"]?.string.map { AuthenticationMethod(rawValue: $0) }
      guard
        let space = try? ProtectionSpace(
          element["origin"]?.string ?? "", realm: element["realm"]?.string, method: method,
          isProxy: element["proxy"]?.boolean ?? false)
      else { preconditionFailure("a credential of no server was taken") }
      var credential: Credential
      if let token = element["token"]?.string {
        credential = .bearer(token, persistence: .permanent)
      } else {
        credential = .password(
          user: element["user"]?.string ?? "", password: element["password"]?.string ?? "", persistence: .permanent)
      }
      if let names = element["schemes"]?.array?.map(\.string) {
        precondition(names.allSatisfy { $0 == "basic" || $0 == "digest" }, "schemes that nobody knows were taken")
        credential.schemes = []
        if names.contains("basic") { credential.schemes.insert(.basic) }
        if names.contains("digest") { credential.schemes.insert(.digest) }
      }
      let key = credential.user.map { "user \($0)" } ?? "token"
      // Of names that are the same text of other bytes the first is found.
      if let other = wanted[space]?[key]?.user, !other.utf8.elementsEqual((credential.user ?? "").utf8) { return }
      wanted[space, default: [:]][key] = credential
    }
    precondition(Set(storage.protectionSpaces) == Set(wanted.keys), "a credential stands in another space")
    for (space, credentials) in wanted {
      for credential in credentials.values where credential.user != "" && credential.token == nil {
        precondition(storage.credentials(for: space)[credential.user ?? ""] == credential, "another credential")
      }
    }
  }

  /// Of members with one name, readers may take either.
  private static func isPlain(_ value: JSONValue) -> Bool {
    switch value {
    case .object(let members):
      Set(members.map(\.name)).count == members.count && members.allSatisfy { isPlain($0.value) }
    case .array(let values): values.allSatisfy { isPlain($0) }
    default: true
    }
  }

  // MARK: Cookies

  private static let suffixes = PublicSuffixList(reading: Array("com\nco.uk\n*.ck\n!www.ck\n".utf8).span)

  private static func cookies(_ bytes: [UInt8]) {
    guard let file = try? JSONReader.read(bytes, depthLimit: 32, valueLimit: 10_000) else { return }
    let storage = CookieStorage(suffixes: suffixes)
    guard let report = try? storage.load(file) else { return precondition(storage.isEmpty, "half of a file was taken") }
    let elements = file["cookies"]?.array ?? []
    precondition(report.read + report.problemCount <= elements.count && storage.count <= report.read, "miscounted")
    precondition(report.problems.count == min(100, report.problemCount), "a problem was kept silent")
    for problem in report.problems {
      precondition((1...elements.count).contains(problem.place), "a problem of no cookie")
      let element = elements[problem.place - 1]
      guard let value = element["value"]?.string, value.utf8.count > 20 else { continue }
      // A domain is named, and may be the same text, as may be words of ours.
      let isRepeated = Repetition.isThere(value, in: problem.message) { self.problem(of: element, with: $0) }
      precondition(!isRepeated, "a value was repeated")
    }
    let now = EventLoop.wallClockNanoseconds() / 1_000_000_000
    let kept = storage.cookies
    // One that ends while this is tested may be there or not.
    guard kept.allSatisfy({ $0.record.expiry.map { $0.seconds > now + 60 } ?? true }) else { return }
    let written = JSONWriter.line(.object([.init("version", .integer(1)), .init("cookies", storage.jsonValue)]))
    let again = CookieStorage(suffixes: suffixes)
    guard let value = try? JSONReader.read(written), let second = try? again.load(value) else {
      preconditionFailure("what was written cannot be read")
    }
    precondition(second.problemCount == 0 && second.read == kept.count, "a cookie that was kept is refused")
    precondition(Set(again.cookies) == Set(kept), "a cookie changed on its way through a file")
  }

  /// Why a cookie is refused that has another value and is alone in its file.
  private static func problem(of element: JSONValue, with value: String) -> String? {
    guard case .object(let members) = element else { return nil }
    let changed = members.map { $0.name == "value" ? JSONValue.Member($0.name, .string(value)) : $0 }
    let file = JSONValue.object([.init("version", .integer(1)), .init("cookies", .array([.object(changed)]))])
    return (try? CookieStorage(suffixes: suffixes).load(file))?.problems.first?.message
  }
}
