internal import LupineRules

/// A status as `lupine watch` prints it.
struct WatchLine {
  var name: String
  var isReachable: Bool
  var text: String

  /// An object on a line.
  var json: String {
    let members: [JSONValue.Member] = [
      .init("status", .string(name)), .init("isReachable", .boolean(isReachable)), .init("description", .string(text)),
    ]
    return String(decoding: JSONWriter.line(.object(members)), as: UTF8.self) + "\n"
  }
}
