import LupineSession

#if canImport(Glibc)
import Glibc
#endif

// Fetches a URL with nothing but LupineSession: "200 13" and status 0, or "code phase" and status 1.
// usage: SessionProbe URL [CA-FILE [HOST:PORT ADDRESS:PORT]]

let arguments = CommandLine.arguments
guard (2...5).contains(arguments.count), arguments.count != 4 else {
  print("usage: SessionProbe URL [CA-FILE [HOST:PORT ADDRESS:PORT]]")
  exit(2)
}
var configuration = SessionConfiguration()
if arguments.count >= 3 { configuration.tls.roots = .file(arguments[2]) }
if arguments.count == 5 { configuration.nameOverrides = [arguments[3]: arguments[4]] }

do {
  let session = try Session(configuration)
  let (body, response) = try await session.data(from: arguments[1])
  print("\(response.statusCode) \(body.count)")
} catch let error as SessionError {
  print("\(error.code) \(error.phase)")
  print(error)
  exit(1)
}
