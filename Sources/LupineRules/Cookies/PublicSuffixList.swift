/// Which domains are those of many parties, so that no cookie may be set for them: the list of publicsuffix.org, or a rule that does without.
///
/// Without a list these are public: names of one label; under a country's two letters the usual second labels (`co.uk`, `com.au`, …);
/// and a few well-known hosts of strangers (`github.io`, …). That errs on the side of refusing `Domain=co.xx`, and misses most private
/// suffixes: cookies for them are then accepted from within them.
package struct PublicSuffixList: Sendable {
  /// What is said of one name.
  private struct Rules: OptionSet, Sendable {
    let rawValue: UInt8
    /// The name is public.
    static let plain = Rules(rawValue: 1)
    /// Every name directly below is public (`*.name`), and the name itself: a cookie for it would be one for all of them.
    static let wildcard = Rules(rawValue: 2)
    /// The name is not public, in spite of a wildcard (`!name`).
    static let exception = Rules(rawValue: 4)
  }

  /// Bytes of a list that are read.
  package static let sizeLimit = 4 << 20
  /// Rules that are kept.
  package static let ruleLimit = 100_000
  /// Labels of a rule; a longer one is skipped.
  private static let depthLimit = 8

  private let rules: [String: Rules]?
  /// Labels of the longest rule: names are not looked up beyond it.
  private let depth: Int
  /// How many rules there are; 0 without a list.
  package var count: Int { rules?.count ?? 0 }
  /// Lines that were no rule.
  package let skippedLines: Int

  /// The rule that does without a list.
  package static let builtIn = PublicSuffixList(rules: nil, depth: 2, skippedLines: 0)

  private init(rules: [String: Rules]?, depth: Int, skippedLines: Int) {
    self.rules = rules
    self.depth = depth
    self.skippedLines = skippedLines
  }

  /// Reads the format of publicsuffix.org: a rule a line, up to its first white space; `//` begins a comment. Unicode is turned into A-labels;
  /// what is no rule is skipped.
  package init(reading bytes: Span<UInt8>) {
    var rules: [String: Rules] = [:]
    rules.reserveCapacity(min(bytes.count / 16, 16_384))
    var (depth, skipped, index) = (1, 0, 0)
    let end = min(bytes.count, Self.sizeLimit)
    while index < end, rules.count < Self.ruleLimit {
      let lineEnd = bytes.firstIndex(of: UInt8(ascii: "\n"), in: index..<end) ?? end
      var word = index
      while word < lineEnd, bytes[word] > 0x20 { word += 1 }
      defer { index = lineEnd + 1 }
      guard word > index,
        !(word - index >= 2 && bytes[index] == UInt8(ascii: "/") && bytes[index + 1] == UInt8(ascii: "/"))
      else { continue }
      guard let (name, kind) = Self.rule(bytes, index..<word) else {
        skipped += 1
        continue
      }
      rules[name, default: []].insert(kind)
      depth = max(depth, Self.labelCount(name))
    }
    self.init(rules: rules, depth: depth, skippedLines: skipped)
  }

  private static func rule(_ bytes: Span<UInt8>, _ line: Range<Int>) -> (String, Rules)? {
    var line = line
    var kind = Rules.plain
    if bytes[line.lowerBound] == UInt8(ascii: "!") {
      kind = .exception
      line = line.lowerBound + 1..<line.upperBound
    } else if line.count > 2, bytes[line.lowerBound] == UInt8(ascii: "*"),
      bytes[line.lowerBound + 1] == UInt8(ascii: ".")
    {
      kind = .wildcard
      line = line.lowerBound + 2..<line.upperBound
    }
    guard let host = try? HostReader.read(bytes, line), host.kind == .name, host.text.utf8.last != UInt8(ascii: "."),
      labelCount(host.text) <= depthLimit
    else { return nil }
    return (host.text, kind)
  }

  private static func labelCount(_ name: String) -> Int { name.utf8.count { $0 == UInt8(ascii: ".") } + 1 }

  /// Whether a domain is public: nobody's own.
  package func isPublic(_ host: URLHost) -> Bool {
    host.kind == .name && registrableDomain(of: host) == nil
  }

  /// The name that its owner has registered: one label more than the public suffix; nil if the host is a public suffix itself. That of an
  /// address is the address. A final dot is no label (CVE-2022-27779), and is kept.
  package func registrableDomain(of host: URLHost) -> String? {
    guard host.kind == .name else { return host.text }
    let name = host.text.utf8
    let end = name.last == UInt8(ascii: ".") ? name.index(before: name.endIndex) : name.endIndex
    // One label is public in any case (the list's rule `*`). One label behind the longest suffix is all that is looked at.
    var suffixLabels = 1
    var labels = 0
    var starts = InlineArray<11, String.Index>(repeating: end)
    var cursor = end
    while labels < depth + 2 {
      var start = cursor
      while start > name.startIndex, name[name.index(before: start)] != UInt8(ascii: ".") {
        start = name.index(before: start)
      }
      labels += 1
      starts[labels] = start
      if labels <= depth {
        let found = self[String(host.text[start..<end]), labels: labels]
        if found.contains(.exception) { return String(host.text[start...]) }
        if found.contains(.plain) { suffixLabels = labels }
        if found.contains(.wildcard) { suffixLabels = max(suffixLabels, labels + 1) }
      }
      if start == name.startIndex { break }
      cursor = name.index(before: start)
    }
    guard labels > suffixLabels else { return nil }
    return String(host.text[starts[suffixLabels + 1]...])
  }

  private subscript(name: String, labels labels: Int) -> Rules {
    if let rules { return rules[name] ?? [] }
    guard labels == 2 else { return [] }
    if Self.builtInNames.contains(name) { return .plain }
    let parts = name.split(separator: ".")
    return parts.count == 2 && parts[1].utf8.count == 2 && Self.secondLabels.contains(parts[0]) ? .plain : []
  }

  /// Second labels that registries of countries sell below.
  private static let secondLabels: Set<Substring> = [
    "ac", "asso", "co", "com", "coop", "edu", "go", "gob", "gouv", "gov", "govt", "gv", "idv", "ltd", "mil", "ne",
    "net", "nhs", "nom",
    "or", "org", "plc", "police", "sch",
  ]

  /// Domains below which strangers live side by side.
  private static let builtInNames: Set<String> = [
    "appspot.com", "azurewebsites.net", "blogspot.com", "cloudfront.net", "firebaseapp.com", "fly.dev", "github.io",
    "gitlab.io",
    "herokuapp.com", "netlify.app", "ngrok.io", "onrender.com", "pages.dev", "readthedocs.io", "vercel.app", "web.app",
    "workers.dev",
  ]
}
