/// Who wants to read standard input. It can be read once: of two, one would get nothing, or what was meant for the other.
enum InputUsers {
  /// - Parameter credentials: options by name, with what they were given.
  static func check(
    items: [String], payload: PayloadOptions, credentials: [(option: String, text: String?)]
  ) throws(CommandFailure) {
    var users = credentials.filter { $0.text == "@-" }.map { "\($0.option) @-" }
    if payload.raw == "@-" { users.append("--raw @-") }
    users += payload.multipart.filter { readsInput(try? RequestItem(part: $0)) }.map { "--multipart \($0)" }
    users += items.filter { readsInput($0) }
    guard users.count > 1 else { return }
    throw .misuse(
      "\(users.joined(separator: ", ")): only one of them can read standard input; give the others files (@FILE)")
  }

  private static func readsInput(_ text: String) -> Bool {
    var isRead = false
    let item = try? RequestItem(
      text,
      readFile: { path in
        isRead = isRead || path == "-"
        // Something that is JSON as well, which a field may have to be.
        return Array("0".utf8)
      })
    return isRead || readsInput(item)
  }

  private static func readsInput(_ item: RequestItem?) -> Bool {
    switch item {
    case .file(_, "-", _), .body("-"): true
    default: false
    }
  }
}
