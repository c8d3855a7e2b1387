internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// What belongs to a session, kept in a file between runs: a JSON object with `"version": 1`, `"cookies"`, and `"credentials"` if there are any. Members that
/// this program does not know are kept as they are.
struct SessionFile {
  let path: String
  let cookies: CookieStorage
  /// What servers have accepted, and not refused since.
  let credentials: CredentialStorage
  private var members: [JSONValue.Member]
  /// What it is written to; nil: it is read alone.
  private let file: WholeFile?
  private let sizeLimit: Int

  /// Reads the file; a missing one is empty. That it can be written shows now, and not when the request has been sent.
  init(_ path: String, isSaved: Bool = true, sizeLimit: Int = CookieStorage.jsonSizeLimit) throws {
    self.path = path
    self.sizeLimit = sizeLimit
    cookies = CookieStorage()
    credentials = CredentialStorage(followingServers: true)
    members = []
    guard try FileSystem.isThere(path) else {
      file = isSaved ? try WholeFile(path) : nil
      return
    }
    let bytes = try SmallFile.read(path, limit: sizeLimit)
    do throws(JSONError) {
      let value = try JSONReader.read(bytes, depthLimit: 32, valueLimit: 1_000_000)
      // That a value is no object, the storage tells.
      if case .object(let found) = value { members = found }
    } catch {
      throw CommandFailure.misuse("\(path) is no session file: \(error)")
    }
    file = isSaved ? try WholeFile(path) : nil
    do throws(SessionError) {
      let report = try cookies.load(.object(members))
      for problem in report.problems {
        let text = "\(path): cookie \(problem.place) is left out: \(problem.message)"
        System.tell("lupine: \(TerminalText.escaped(text))\n")
      }
      if let kept = JSONValue.object(members)["credentials"] {
        // More are kept by no run.
        let limit = CredentialStorage.learnedLimit
        guard kept.array?.count ?? 0 <= limit else {
          throw SessionError(.fileFailed, phase: .prepare, message: "it has more than \(limit) credentials")
        }
        try credentials.load(json: Self.document(kept))
      }
    } catch {
      throw CommandFailure.misuse("\(path) is no session file: \(error.message)")
    }
  }

  /// Credentials as a storage reads them: its files have the same version and the same member.
  private static func document(_ credentials: JSONValue) -> [UInt8] {
    JSONWriter.line(
      .object([
        JSONValue.Member("version", .integer(CookieJSON.version)), JSONValue.Member("credentials", credentials),
      ]))
  }

  /// Writes what there is now, readable by the owner only, in the place of the old file. Of two runs at a time the later one wins.
  func save() throws {
    var members = [JSONValue.Member("version", .integer(CookieJSON.version))]
    members += self.members.filter { !["version", "cookies", "credentials"].contains($0.name) }
    members.append(JSONValue.Member("cookies", cookies.jsonValue))
    if let kept = try JSONReader.read(credentials.json())["credentials"], kept != .array([]) {
      members.append(JSONValue.Member("credentials", kept))
    }
    let bytes = Array((JSONWriter.pretty(.object(members)) + "\n").utf8)
    guard bytes.count <= sizeLimit else {
      throw CommandFailure(
        .failure, "cannot write \(path): it would have \(bytes.count) bytes, and \(sizeLimit) are read again")
    }
    try file?.write(bytes)
  }
}
