internal import LupineBase
internal import LupineTLS

/// Oracle: whatever a server says, no byte of it is taken for data before the handshake is over, what we answer stays small, and once the
/// connection has failed it gives the same error for good.
///
/// The first byte chooses version and pieces; the rest is what the server says.
package enum TLSEngineFuzz {
  /// Of one version each, without roots: nobody is trusted, and nothing is read from disk.
  private static let contexts: [TLSContext?] = [.tls12, .tls13].map { (version: TLSVersion) in
    var policy = TLSPolicy()
    policy.roots = .certificates([])
    policy.minimumVersion = version
    policy.maximumVersion = version
    return try? TLSContext(client: policy)
  }

  /// Bytes that a client says before it is over: hello, and an alert. The largest hello with every key share is below this.
  private static let mostOutput = 16 * 1024

  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    guard let context = contexts[Int(choice & 1)], let name = try? ServerName("localhost"),
      let connection = try? TLSConnection(client: context, options: TLSClientOptions(serverName: name))
    else { preconditionFailure("no client could be made") }
    precondition((try? connection.handshake()) == .needsInput, "a client that does not wait for the server")
    var failure = feed(connection, Array(bytes.dropFirst()), pieces: 1 + Int(choice >> 1))
    if failure == nil {
      do throws(TLSError) { try connection.endOfInput() } catch { failure = error }
    }
    precondition(connection.outputCount <= mostOutput, "\(connection.outputCount) bytes in answer")
    guard let failure else { return }
    do throws(TLSError) {
      _ = try connection.handshake()
      preconditionFailure("it goes on after \(failure)")
    } catch {
      precondition(error == failure, "another error than before: \(error)")
    }
  }

  private static func feed(_ connection: TLSConnection, _ bytes: [UInt8], pieces: Int) -> TLSError? {
    var rest = bytes[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(max(1, bytes.count / pieces)))
      rest = rest.dropFirst(piece.count)
      do throws(TLSError) {
        _ = try connection.receive(piece.span) { _ in preconditionFailure("data before the end of the handshake") }
      } catch {
        return error
      }
    }
    return nil
  }
}
