internal import LupineRules
internal import LupineSession

/// Oracle: whatever is read is written as an archive that reads back as itself, and is written the same again; a redacted one reads back too
/// and holds neither userinfo nor the token of a URL, wherever the URL is; no input traps, and none passes its limits.
package enum ArchiveFuzz {
  package static func run(bytes: [UInt8]) {
    var limits = HTTPArchive.ReadingLimits()
    limits.nesting = 16
    limits.values = 10_000
    limits.entries = 50
    limits.fields = 40
    guard let archive = try? HTTPArchive(json: bytes, limits: limits) else { return }
    precondition(archive.entries.count <= limits.entries)
    for entry in archive.entries {
      precondition(entry.request.fields.count <= limits.fields)
      precondition((1...999).contains(entry.response?.status ?? 200))
      let keys = [entry.request.method, entry.request.url] + entry.request.fields.map(\.name)
      precondition(!keys.contains(where: CombiningMarks.areTooMany), "what is looked for takes long to compare")
    }
    let written = archive.json(redactingSecrets: false)
    precondition(written.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x0A }, "a control byte was written")
    guard let again = try? HTTPArchive(json: written) else { preconditionFailure("what was written cannot be read") }
    precondition(again.entries.count == archive.entries.count)
    for (left, right) in zip(archive.entries, again.entries) { compare(left, right) }
    // From here on nothing changes any more.
    precondition(again.json(redactingSecrets: false) == written, "writing is not stable")
    let redacted = archive.json()
    guard let safe = try? HTTPArchive(json: redacted) else { preconditionFailure("a redacted archive cannot be read") }
    precondition(safe.json() == redacted, "redacting is not stable")
    for entry in safe.entries { checkRedacted(entry) }
  }

  private static func compare(_ left: HTTPArchive.Entry, _ right: HTTPArchive.Entry) {
    precondition(left.request.method == right.request.method && left.request.url == right.request.url)
    precondition(left.request.fields == right.request.fields, "the fields of a request changed")
    // An empty body is not written.
    precondition(left.request.body ?? [] == right.request.body ?? [], "the body of a request changed")
    precondition(left.request.trailers == right.request.trailers, "what follows the body of a request changed")
    precondition(left.response?.fields == right.response?.fields, "the fields of a response changed")
    precondition(left.response?.body == right.response?.body, "the body of a response changed")
    precondition(left.response?.trailers == right.response?.trailers)
    precondition(left.response?.informational == right.response?.informational)
    precondition(left.failure == right.failure && left.tls == right.tls && left.comment == right.comment)
    precondition(left.fetchType == right.fetchType && left.isFromDisk == right.isFromDisk, "the cache changed")
    precondition(left.timings.wait ?? .zero == right.timings.wait ?? .zero, "a timing changed")
  }

  private static func checkRedacted(_ entry: HTTPArchive.Entry) {
    for field in entry.request.fields where field.name.lowercased() == "authorization" {
      precondition(field.value.hasSuffix("[redacted]"), "credentials are left")
    }
    for field in entry.response?.fields ?? [] where field.name.lowercased() == "set-cookie" {
      for line in field.value.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
        let pair = line.prefix { $0 != UInt8(ascii: ";") }
        precondition(pair.suffix(10).elementsEqual("[redacted]".utf8), "a cookie is left")
      }
    }
    checkTokens(entry)
    guard let slashes = entry.request.url.range(of: "//") else { return }
    let authority = entry.request.url.utf8[slashes.upperBound...].prefix { !"/?#\\".utf8.contains($0) }
    precondition(!authority.contains(UInt8(ascii: "@")), "userinfo is left")
  }

  /// Fields that have one URL, or what of it is asked for.
  private static let addresses: Set<String> = [":path", "location", "content-location", "referer", "refresh"]

  private static func checkTokens(_ entry: HTTPArchive.Entry) {
    var fields = entry.request.fields + entry.request.trailers
    if let response = entry.response {
      fields += response.fields + response.trailers + response.informational.flatMap(\.fields)
    }
    let values = fields.filter { addresses.contains($0.name.lowercased()) }.map(\.value)
    for url in values + [entry.request.url] {
      let marks = Array("?#".utf8)
      let behind = url.utf8.drop { !marks.contains($0) }
      let query = behind.prefix { $0 != UInt8(ascii: "#") }
      for half in [query, behind.dropFirst(query.count)] {
        for parameter in half.dropFirst().split(separator: UInt8(ascii: "&"))
        where parameter.starts(with: "access_token=".utf8) {
          let value = parameter.dropFirst(13)
          precondition(value.isEmpty || value.elementsEqual("REDACTED".utf8), "a token is left")
        }
      }
    }
  }
}

extension String {
  /// The first place of a text; FoundationEssentials has this too, but nothing here needs it otherwise.
  fileprivate func range(of text: String) -> Range<String.Index>? {
    let (haystack, needle) = (Array(utf8), Array(text.utf8))
    guard
      let start = (0..<max(0, haystack.count - needle.count + 1)).first(where: {
        haystack[$0..<$0 + needle.count].elementsEqual(needle)
      })
    else { return nil }
    let lower = utf8.index(utf8.startIndex, offsetBy: start)
    return lower..<utf8.index(lower, offsetBy: needle.count)
  }
}
