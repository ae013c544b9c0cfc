"use client";

import { type CSSProperties, createElement, forwardRef, useEffect, useImperativeHandle, useRef } from "react";

/** The component's element, with the page's methods for the call. A method rejects if there is no call. */
export interface ConclaveCallElement extends HTMLElement {
  mute(isMuted?: boolean): Promise<void>;
  muteCamera(isMuted?: boolean): Promise<void>;
  share(isShared?: boolean): Promise<void>;
  leave(): Promise<void>;
  /** Makes a link that invites others, for the call's button that copies it. */
  inviteLink: InviteLink | null;
}

/** Returns a link that invites others to the call; `user` is the participant who requests it. */
export type InviteLink = (user: Participant & { room: string }) => string | Promise<string>;

export interface Participant {
  identity: string;
  name: string;
  role: string | null;
}

/** Details of the element's events. */
export interface ConclaveCallEvents {
  joined: Participant & { room: string };
  left: { room: string; reason: "left" | "removed" | "ended" | "elsewhere" | "stopped" | "lost" };
  "participant-joined": Participant;
  "role-changed": Participant;
  "recording-changed": { recording: boolean; broadcast: boolean };
  ending: { room: string; seconds: number };
  ended: { room: string };
  error: { code: string; message: string };
}

/** A control of the call, as named in the attribute `controls`. */
export type Control =
  | "microphone"
  | "camera"
  | "screen"
  | "hand"
  | "reactions"
  | "participants"
  | "chat"
  | "layout"
  | "full-screen"
  | "picture-in-picture"
  | "record"
  | "broadcast"
  | "settings"
  | "details"
  | "shortcuts"
  | "invite"
  | "leave";

type Variable =
  | "accent"
  | "background"
  | "panel"
  | "tile"
  | "border"
  | "text"
  | "quiet"
  | "live"
  | "danger"
  | "radius"
  | "font";
type Handler<Name extends keyof ConclaveCallEvents> = (detail: ConclaveCallEvents[Name]) => void;

export interface ConclaveCallProps {
  /** Server address, such as `https://meet.example.org`. */
  server: string;
  /** A room code; or a room token with its URL. */
  code?: string;
  token?: string;
  url?: string;
  name?: string;
  layout?: "grid" | "speaker";
  /** `false` hides the chat. */
  chat?: boolean;
  /** Number of tiles shown at once: 1 to 49, 16 by default. */
  maxTiles?: number;
  /** Visible controls; all by default. */
  controls?: Control[];
  language?: "ar" | "de" | "en" | "es" | "fr" | "pt" | "sw";
  /** Title of the call, also for screen readers. */
  title?: string;
  /** Joins without the form, with a token or with a code and a name. */
  skipLobby?: boolean;
  /** Joins with the microphone off. */
  startMuted?: boolean;
  /** Joins with the camera off. */
  startCameraOff?: boolean;
  className?: string;
  style?: CSSProperties & { [Name in `--conclave-${Variable}`]?: string };
  /** Makes a link that invites others; with it, the call has a button that copies the link. */
  inviteLink?: InviteLink;
  onJoined?: Handler<"joined">;
  onLeft?: Handler<"left">;
  onParticipantJoined?: Handler<"participant-joined">;
  onRoleChanged?: Handler<"role-changed">;
  onRecordingChanged?: Handler<"recording-changed">;
  onEnding?: Handler<"ending">;
  onEnded?: Handler<"ended">;
  onError?: Handler<"error">;
}

/** Loads the script that defines the element, once. */
function load(server: string): void {
  const src = new URL("/embed.js", server).href;
  if (document.querySelector(`script[src="${CSS.escape(src)}"]`)) return;
  document.head.append(Object.assign(document.createElement("script"), { src, async: true }));
}

/** A Conclave call. The page's origin must be listed in `http.embed_origins`. */
export const ConclaveCall = forwardRef<ConclaveCallElement, ConclaveCallProps>(function ConclaveCall(props, ref) {
  const element = useRef<ConclaveCallElement>(null);
  const newest = useRef(props);
  newest.current = props;
  useImperativeHandle(ref, () => element.current as ConclaveCallElement, []);
  useEffect(() => load(props.server), [props.server]);
  useEffect(() => {
    const ended = new AbortController();
    const listen = <Name extends keyof ConclaveCallEvents>(
      name: Name,
      find: (props: ConclaveCallProps) => Handler<Name> | undefined,
    ) => {
      const pass = (event: Event) => find(newest.current)?.((event as CustomEvent<ConclaveCallEvents[Name]>).detail);
      element.current?.addEventListener(name, pass, { signal: ended.signal });
    };
    listen("joined", ({ onJoined }) => onJoined);
    listen("left", ({ onLeft }) => onLeft);
    listen("participant-joined", ({ onParticipantJoined }) => onParticipantJoined);
    listen("role-changed", ({ onRoleChanged }) => onRoleChanged);
    listen("recording-changed", ({ onRecordingChanged }) => onRecordingChanged);
    listen("ending", ({ onEnding }) => onEnding);
    listen("ended", ({ onEnded }) => onEnded);
    listen("error", ({ onError }) => onError);
    return () => ended.abort();
  }, []);
  const makesLinks = props.inviteLink !== undefined;
  useEffect(() => {
    const make: InviteLink = (user) => newest.current.inviteLink?.(user) ?? "";
    if (element.current) element.current.inviteLink = makesLinks ? make : null;
  }, [makesLinks]);
  const { code, token, url, name, title, layout, chat, language, className, style } = props;
  // Not as a property below: React 19 would assign it to the element's `title`, and a removed one as the text "undefined".
  useEffect(() => {
    if (title === undefined) element.current?.removeAttribute("title");
    else element.current?.setAttribute("title", title);
  }, [title]);
  const attributes = { code, token, url, name, layout, chat: chat === false ? "off" : undefined, language };
  const others = {
    "max-tiles": props.maxTiles,
    controls: props.controls?.join(" "),
    "skip-lobby": props.skipLobby ? "" : undefined,
    "start-muted": props.startMuted ? "" : undefined,
    "start-camera-off": props.startCameraOff ? "" : undefined,
  };
  return createElement("conclave-call", { ...attributes, ...others, class: className, style, ref: element });
});
