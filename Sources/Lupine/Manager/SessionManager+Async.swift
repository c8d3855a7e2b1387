internal import Foundation
internal import LupineBase
public import LupineSession
internal import Synchronization

extension SessionManager {
  /// Fetches a request and makes a value of its body.
  ///
  /// The short way: nothing is queued anywhere, and the serializer runs on the executor of the process, never on the main actor. So no notification is
  /// posted; hooks that concern the exchange are called if they are set (see `SessionManagerHooks`). Cancelling the task cancels the request.
  ///
  /// - Returns: the value, and the response with trailers and metrics.
  /// - Throws: `SessionError`; what the serializer throws, with response and body in it; the error of a challenge handler that gave up.
  @concurrent
  public func response<Serializer: ResponseSerializer>(
    for request: Request, serializer: Serializer
  ) async throws -> (Serializer.Output, Response) {
    guard isPlain else { return try await told(request) { try serializer.serialize($1, data: $0) } }
    let (data, response) = try await exchange(request)
    return (try serializer.serialize(response, data: data), response)
  }

  /// Whether a call is `exchange(_:)` and nothing else.
  @inline(__always)
  var isPlain: Bool { core.settings.values.withLock { $0.isPlain } }

  /// One exchange that tells nobody. Part of its caller, as `HTTPSessionManager.value(of:as:)` is.
  @inline(__always)
  func exchange(_ request: Request) async throws -> (Data, Response) {
    let settings = core.settings
    do {
      return try await session.data(for: request)
    } catch let error as SessionError {
      throw settings.explained(error)
    }
  }

  /// One exchange, or several, with the hooks that are set, and the value of what came.
  // Apart, because a function is as large as everything that any of its ways needs.
  @inline(never)
  func told<Output>(
    _ request: Request, _ value: (Data, Response) throws -> Output
  ) async throws -> (Output, Response) {
    var response: Response?
    do {
      let (data, last) = try await attempts(request, &response)
      let output = try value(data, last)
      tell(request, last, nil)
      return (output, last)
    } catch {
      tell(request, response, error)
      throw error
    }
  }

  func tell(_ request: Request, _ response: Response?, _ error: (any Error)?) {
    guard let hook = core.settings.hook({ $0.callDidComplete }) else { return }
    delegateQueue.async { hook(request, response, error) }
  }

  /// - Parameter last: becomes the response of the last attempt, if it had one. An error may be an interceptor's, with the response of another request.
  private func attempts(_ request: Request, _ last: inout Response?) async throws -> (Data, Response) {
    let settings = core.settings
    let delegate = HookedTaskDelegate.forAsyncCall(settings)
    let retrying = settings.values.withLock { $0.retrying.isTrivial ? nil : $0.retrying }
    do {
      guard let retrying else {
        let answer = try await session.data(for: request, delegate: delegate)
        last = answer.1
        return answer
      }
      return try await retrying.run(request.marked(by: session.configuration)) { request throws(SessionError) in
        do {
          let answer = try await session.data(for: request, delegate: delegate)
          last = answer.1
          return answer
        } catch let error as SessionError {
          last = error.response
          throw error
        } catch {
          throw SessionError(.unknown, phase: .receive, message: "\(error)", underlying: error)
        }
      }
    } catch let error as SessionError {
      if retrying == nil { last = error.response }
      throw delegate?.explained(error) ?? settings.explained(error)
    }
  }
}
