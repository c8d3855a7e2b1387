internal import Foundation
internal import LupineBase
public import LupineSession
internal import Synchronization

/// Bodies as they arrive, with what the manager knows of requests and responses.
extension SessionManager {
  /// Fetches a request and returns as soon as the head of an acceptable response is there; the body follows as it is read.
  ///
  /// Interceptors and retry policy do for it what they do for `response(for:serializer:)`, until the body is handed out: what goes wrong later is thrown by the
  /// body, and not repeated. Hooks that concern the exchange are called if they are set; no notification is posted. Cancelling the task cancels
  /// the request, and so does letting go of the body.
  ///
  /// A status that is not acceptable to the manager's response serializer is an error, with at most the first 64 KiB of the body as its `data`, as of a download;
  /// the same is shown to interceptors, and of the body of an acceptable status nothing. The media type is up to the reader.
  ///
  /// - Returns: the body, and the response, as yet without trailers: see `ResponseBytes.finalResponse`.
  /// - Throws: `SessionError`; `SerializationError` with `.unacceptableStatusCode`; what an interceptor throws; the error of a challenge handler that gave up.
  @concurrent
  public func bytes(for request: Request) async throws -> (ResponseBytes, Response) {
    var response: Response?
    do {
      let answer = try await accepted(request, &response)
      tell(request, answer.1, nil)
      return answer
    } catch {
      tell(request, response, error)
      throw error
    }
  }

  /// - Parameter last: see `attempts(_:_:)`.
  private func accepted(_ request: Request, _ last: inout Response?) async throws -> (ResponseBytes, Response) {
    let settings = core.settings
    let delegate = HookedTaskDelegate.forAsyncCall(settings)
    let retrying = settings.values.withLock { $0.retrying }
    do {
      let answer = try await retrying.run(request.marked(by: session.configuration)) { request throws(SessionError) in
        do throws(SessionError) {
          let answer = try await streamed(request, delegate)
          last = answer.bytes.finalResponse ?? answer.response
          return answer
        } catch {
          last = error.response
          throw error
        }
      } refusal: {
        $0.response.statusCode >= 400 ? ($0.refusedBody ?? Data(), $0.response) : nil
      }
      guard let body = answer.refusedBody else { return (answer.bytes, answer.response) }
      throw ResponseValidation.unacceptableStatus(answer.bytes.finalResponse ?? answer.response, data: body)
    } catch let error as SessionError {
      throw delegate?.explained(error) ?? settings.explained(error)
    }
  }

  /// One attempt.
  private func streamed(
    _ request: Request, _ delegate: HookedTaskDelegate?
  ) async throws(SessionError) -> StreamedAnswer {
    do {
      let (bytes, response) = try await session.bytes(for: request, delegate: delegate)
      let status = response.statusCode
      let isAcceptable = core.settings.values.withLock { $0.isAcceptable(status) }
      return StreamedAnswer(
        bytes: bytes, response: response, refusedBody: isAcceptable ? nil : try await bytes.refused())
    } catch let error as SessionError {
      throw error
    } catch {
      throw SessionError(.unknown, phase: .receive, message: "\(error)", underlying: error)
    }
  }
}

extension HTTPSessionManager {
  /// Fetches with any method, below the manager's base, and returns as soon as the head is there; see `bytes(for:)`.
  ///
  /// For a stream that may be quiet for longer than 60 s, give that time as `timeout`.
  @concurrent
  public func bytes(
    _ method: HTTPRequest.Method, _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    timeout: Duration? = nil
  ) async throws -> (ResponseBytes, Response) {
    try await bytes(for: request(method, url, parameters: parameters, headers: headers, timeout: timeout))
  }
}

/// What one attempt gives whose body is read as it arrives.
private struct StreamedAnswer {
  var bytes: ResponseBytes
  var response: Response
  /// The beginning of the body of a status that is not acceptable; nil: it is acceptable, and nothing of the body was read.
  var refusedBody: Data?
}

extension ResponseBytes {
  /// As much of an error's body as is kept of that of a download.
  private static var refusedLimit: Int { 64 << 10 }

  /// The beginning of the body, whatever becomes of its rest. A call that was cancelled was not refused.
  fileprivate func refused() async throws -> Data {
    var body = Data()
    do {
      for try await chunk in chunks {
        body += chunk.prefix(Self.refusedLimit - body.count)
        guard body.count < Self.refusedLimit else { break }
      }
    } catch let error as SessionError where error.code == .cancelled {
      throw error
    } catch {}
    return body
  }
}
