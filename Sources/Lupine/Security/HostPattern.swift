internal import LupineRules

/// Patterns of hosts in the spelling in which they are compared: lower case, A-labels, no trailing dot, no brackets.
enum HostPattern {
  /// Nil: neither a host nor `*.` and a name.
  static func canonical(_ pattern: String) -> String? {
    guard pattern.hasPrefix("*.") else { return host(pattern)?.text }
    guard let parent = host(String(pattern.dropFirst(2))), parent.isName else { return nil }
    return "*." + parent.text
  }

  /// The patterns that match a host, the closest first.
  static func candidates(for text: String) -> [String] {
    guard let host = host(text) else { return [] }
    var patterns = [host.text]
    guard host.isName else { return patterns }
    var rest = host.text[...]
    while let dot = rest.firstIndex(of: ".") {
      rest = rest[rest.index(after: dot)...]
      patterns.append("*." + rest)
    }
    return patterns
  }

  private static func host(_ text: String) -> (text: String, isName: Bool)? {
    // An IPv6 address may stand with or without brackets.
    guard let read = (try? HostReader.read(text)) ?? (try? HostReader.read("[\(text)]")) else { return nil }
    let isName = if case .name = read.kind { true } else { false }
    var host = read.text
    if host.hasSuffix("."), host.utf8.count > 1 { host.removeLast() }
    return (host, isName)
  }
}
