internal import LupineRules
internal import LupineWire

/// Oracle: whatever a server sets, no cookie goes where it may not: each one sent is within its domain, path, scheme and time by code that shares
/// nothing with the store; the field can stand in a request; limits hold; counts agree; a saved file reads back as the same cookies; http
/// neither replaces nor hides a `Secure` cookie; and one that is removed is gone, and no other.
///
/// A list of public suffixes answers as its plain rules say.
///
/// Each line is a step: a byte that chooses the URL and what to do, and a `Set-Cookie`. Inputs that begin with `#` are read as a `cookies.txt`,
/// with `[` as cookies in JSON, with `//` as a list of public suffixes.
package enum CookiesFuzz {
  package static func run(bytes: [UInt8]) {
    switch bytes.first {
    case UInt8(ascii: "#"): runFile(bytes)
    case UInt8(ascii: "["): runJSON(bytes)
    case UInt8(ascii: "/"): runSuffixes(bytes)
    default: runStore(bytes)
    }
  }

  private static let suffixes = PublicSuffixList(
    reading: Array("com\nuk\nco.uk\n*.ck\n!www.ck\ngithub.io\ns3.b.com\n".utf8).span)

  private static let urls: [ParsedURL] = [
    "https://a.com/", "http://a.com/", "https://www.a.com/x/y", "http://www.a.com/x", "https://a.com./",
    "https://a.co.uk/x/",
    "https://127.0.0.1/", "https://[::1]/x/y/z", "https://localhost/", "https://a.b.www.ck/",
    "https://me.github.io/x?y/z",
    "http://github.io/", "https://A.Com:8443/X", "https://c.s3.b.com/x;v=1/y", "https://a.test.ck/",
    "https://[fe80::1%25eth0]/",
  ].compactMap { try? URLReader.read($0) }

  private static func runStore(_ bytes: [UInt8]) {
    var store = CookieStore(suffixes: suffixes)
    var now = HTTPDate(seconds: 1_767_225_600)
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 200, omittingEmptySubsequences: true)
    for (step, line) in lines.enumerated() {
      guard let choice = line.first else { continue }
      let url = urls[Int(choice & 15) % urls.count]
      let document = choice & 0x10 == 0 ? nil : urls[Int(choice >> 4) % urls.count]
      let context = CookieContext(url: url, mainDocument: document)
      let before = store.records(now)
      let refusals = store.receive(
        [Array(line.dropFirst())], from: context,
        acceptance: choice & 0x40 == 0 ? .always : .onlyFromMainDocumentDomain, now: now)
      precondition(refusals.allSatisfy { !$0.description.isEmpty } && refusals.count <= 1)
      // Looking at all of many cookies after each would take most of the time.
      if store.count <= 16 || step % 16 == 0 { check(store, now) }
      if url.scheme == .http { checkSecureLeftAlone(before, store.records(now)) }
      if choice & 0x80 != 0 { now = HTTPDate(seconds: now.seconds + 86_400 * Int64(choice & 31)) }
      check(&store, CookieContext(url: urls[Int(choice &* 7 >> 3) % urls.count], mainDocument: document), now)
    }
    for target in urls { check(&store, CookieContext(url: target), now) }
    checkFile(store, now)
    for record in store.records(now) {
      let before = store.count
      precondition(store.remove(record) && store.count == before - 1, "a cookie cannot be removed")
      precondition(!store.remove(record), "a cookie was removed, and is there")
    }
    precondition(store.records(now).isEmpty, "a cookie was removed, and is there")
  }

  private static func runFile(_ bytes: [UInt8]) {
    let now = HTTPDate(seconds: 1_767_225_600)
    let content = NetscapeCookieFile.read(bytes.span, now: now)
    precondition(
      content.problems.count <= NetscapeCookieFile.problemLimit && content.problems.count <= content.problemCount)
    precondition(content.records.count <= NetscapeCookieFile.recordLimit)
    precondition(content.problems.allSatisfy { $0.description.hasPrefix("line \($0.line): ") })
    var store = CookieStore(suffixes: suffixes)
    // A refusal is an answer like any other.
    for (_, record) in content.records { try? store.insert(record, now: now) }
    check(store, now)
    for target in urls { check(&store, CookieContext(url: target), now) }
    checkFile(store, now)
  }

  private static func runJSON(_ bytes: [UInt8]) {
    let now = HTTPDate(seconds: 1_767_225_600)
    guard let elements = (try? JSONReader.read(bytes, depthLimit: 8, valueLimit: 2_000))?.array else { return }
    var store = CookieStore(suffixes: suffixes)
    for element in elements {
      guard let record = CookieJSON.record(element, now: now) else { continue }
      precondition(record.created <= now, "a cookie of tomorrow")
      let written = JSONWriter.line(CookieJSON.value(of: record))
      guard let value = try? JSONReader.read(written) else { preconditionFailure("a cookie is written as no JSON") }
      precondition(CookieJSON.record(value, now: now) == record, "a cookie changed on its way through JSON")
      try? store.insert(record, now: now)
    }
    check(store, now)
    for target in urls { check(&store, CookieContext(url: target), now) }
    checkFile(store, now)
  }

  private static func check(_ store: CookieStore, _ now: HTTPDate) {
    let records = store.records(now)
    precondition(records.count <= store.count && store.count <= CookieStore.totalLimit, "too many cookies")
    for record in records {
      precondition(
        record.name.utf8.count + record.value.utf8.count <= 4096 && record.path.utf8.count <= 1024, "too long")
      precondition(record.path.utf8.first == UInt8(ascii: "/"))
      precondition(
        record.expiry.map { $0 > now && $0.seconds <= now.seconds + 400 * 86_400 } ?? true, "it lives too long")
      precondition(
        record.isHostOnly
          || !["com", "uk", "co.uk", "com.", "github.io", "test.ck", "ck", "s3.b.com"].contains(record.domain),
        "a super cookie")
      precondition(record.isHostOnly || record.domain.contains("."), "a super cookie")
      let name = record.name.lowercased()
      precondition(!name.hasPrefix("__secure-") || record.isSecure)
      precondition(!name.hasPrefix("__host-") || record.isSecure && record.isHostOnly && record.path == "/")
      // What was taken from a server could be given by a caller too.
      guard let again = try? record.validated(suffixes: store.suffixes, now: now) else {
        preconditionFailure("a cookie that is kept could not be given")
      }
      precondition(again == record, "validating changes a cookie")
    }
  }

  private static func check(_ store: inout CookieStore, _ context: CookieContext, _ now: HTTPDate) {
    let chosen = store.select(for: context, now: now)
    let host = context.url.host
    for record in chosen {
      precondition(!record.isSecure || context.url.scheme == .https, "a Secure cookie over http")
      precondition(host.zone == nil)
      let isWithin = !record.isHostOnly && host.kind == .name && host.text.hasSuffix("." + record.domain)
      precondition(host.text == record.domain || isWithin, "a cookie to a foreign host")
      let path = Array(context.url.path.utf8)
      let prefix = Array(record.path.utf8)
      precondition(Array(path.prefix(prefix.count)) == prefix, "a cookie to a foreign path")
      precondition(
        path.count == prefix.count || prefix.last == UInt8(ascii: "/") || path[prefix.count] == UInt8(ascii: "/"),
        "a cookie to a foreign path")
    }
    precondition(
      zip(chosen, chosen.dropFirst()).allSatisfy { $0.path.utf8.count >= $1.path.utf8.count }, "the order is wrong")
    guard let field = store.field(for: context, now: now) else { return precondition(chosen.isEmpty) }
    precondition(field.utf8.count <= CookieStore.sentBytesLimit, "the field is too long")
    guard let prepared = try? PreparedFields([("Cookie", field)]) else {
      preconditionFailure("the field breaks a request")
    }
    _ = prepared
  }

  private static func checkSecureLeftAlone(_ before: [CookieRecord], _ after: [CookieRecord]) {
    for record in before where record.isSecure {
      precondition(after.contains(record), "http touched a Secure cookie")
    }
  }

  private static func checkFile(_ store: CookieStore, _ now: HTTPDate) {
    let records = store.records(now)
    let (text, omitted) = NetscapeCookieFile.write(records)
    let content = NetscapeCookieFile.read(Array(text.utf8).span, now: now)
    precondition(
      content.problemCount == 0 && content.records.count + omitted == records.count, "a saved file cannot be read")
    for (_, record) in content.records {
      let isThere = records.contains {
        $0.name == record.name && $0.value == record.value && $0.domain == record.domain && $0.path == record.path
          && $0.isHostOnly == record.isHostOnly && $0.isSecure == record.isSecure && $0.isHTTPOnly == record.isHTTPOnly
          && $0.expiry == record.expiry
      }
      precondition(isThere, "a cookie changed on its way through a file")
    }
  }

  // MARK: Public suffixes

  /// Rules as publicsuffix.org states its algorithm: the rule of most labels prevails, an exception over all.
  private static func runSuffixes(_ bytes: [UInt8]) {
    let list = PublicSuffixList(reading: bytes.span)
    var rules: [[Substring]] = []
    for line in bytes.split(separator: UInt8(ascii: "\n")) {
      let word = String(decoding: line.prefix { $0 > 0x20 }, as: UTF8.self).lowercased()
      if word.isEmpty || word.hasPrefix("//") { continue }
      // Only plain rules have a second reader here.
      guard word.utf8.allSatisfy({ "abcdefghijklmnopqrstuvwxyz*!.".utf8.contains($0) }) else { return }
      rules.append(word.split(separator: ".", omittingEmptySubsequences: false))
    }
    let isPlain = rules.allSatisfy { rule in
      (1...8).contains(rule.count)
        && rule.enumerated().allSatisfy { index, label in
          let letters = index == 0 && label.hasPrefix("!") ? label.dropFirst() : label
          return (1...63).contains(letters.utf8.count) && !letters.contains("!")
            && (label == "*" ? index == 0 : !letters.contains("*"))
        }
    }
    guard isPlain, list.skippedLines == 0 else { return }
    for url in urls where url.host.kind == .name && url.host.text.utf8.last != UInt8(ascii: ".") {
      let labels = url.host.text.split(separator: ".")
      precondition(
        list.registrableDomain(of: url.host) == registrable(labels, rules), "another registrable domain than the list's"
      )
      precondition(list.isPublic(url.host) == (registrable(labels, rules) == nil))
    }
  }

  private static func registrable(_ labels: [Substring], _ rules: [[Substring]]) -> String? {
    var count = 1
    var exception: Int?
    for rule in rules {
      // A wildcard says the same of the name above it: a cookie for that would be one for all below.
      let plain = rule.first == "*" && rule.count > 1 ? Array(rule.dropFirst()) : rule
      let bare = plain.first.map { $0.hasPrefix("!") ? [$0.dropFirst()] + plain.dropFirst() : plain } ?? plain
      guard labels.reversed().starts(with: bare.reversed()) else { continue }
      if rule.first?.hasPrefix("!") == true { exception = min(exception ?? .max, bare.count) }
      count = max(count, rule.first?.hasPrefix("!") == true ? 0 : rule.count)
    }
    if let exception { return labels.suffix(exception).joined(separator: ".") }
    return labels.count > count ? labels.suffix(count + 1).joined(separator: ".") : nil
  }
}
